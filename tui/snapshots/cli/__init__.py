"""The command snapshot."""
