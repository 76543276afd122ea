"""Convert a file of any torch version to a snapshot in memory, without executing its content."""
