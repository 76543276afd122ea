"""The snapshot that is looked at: its reader child, its answers, the moment and the view."""
