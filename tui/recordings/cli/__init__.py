"""The command replay."""
