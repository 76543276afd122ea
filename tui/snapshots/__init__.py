"""Allocator snapshots: read, replay, explain. Pure Python; no torch, no Textual."""

STANDARD_INPUT = "-"
"""Stands for standard input where a file may be named."""
MEMORY_OPTION = "--memory"
"""Of the command line: allows the reading of a file more or less memory than a quarter."""
