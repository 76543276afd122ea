"""Allocator snapshots: read, replay, explain. Pure Python; no torch, no Textual."""
