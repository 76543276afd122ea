"""The commands run, compare and list."""
