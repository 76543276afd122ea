"""The command results."""
