"""The command links."""
