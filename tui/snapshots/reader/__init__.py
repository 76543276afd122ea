"""The reader child: what it is asked, what it answers, how it reads within a limit."""
