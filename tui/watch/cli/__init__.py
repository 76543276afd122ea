"""The command watch."""
