"""Watched runs: their start, the contents of their folders, their end."""
