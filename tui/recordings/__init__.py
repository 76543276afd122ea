"""Recordings of the children's messages, their replay, and the recording that the program ships."""

from __future__ import annotations

from pathlib import Path

DEMO = "demo.jsonl.gz"
"""Name of the shipped recording."""
DEMO_SNAPSHOT = "demo_out_of_memory.pickle.gz"
"""Name of the allocator snapshot of the run in it that ran out of memory."""
FOLDER = Path(__file__).parent
"""The folder of both."""
