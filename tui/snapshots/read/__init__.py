"""A file of any torch version to a snapshot in memory. Nothing in it runs."""
