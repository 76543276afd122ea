"""Allocator snapshots: read, replay, explain. Pure Python; no torch, no Textual."""

MEMORY_OPTION = "--memory"
"""Of the command line: allows the reading of a file more or less memory than a quarter."""
