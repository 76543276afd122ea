"""Allocator snapshots: read, replay, explain. Pure Python; no torch, no Textual."""

STANDARD_INPUT = "-"
"""Stands for standard input where a file may be named."""
MEMORY_OPTION = "--memory"
"""The command-line option that limits the memory for reading a file."""
