"""Measure what the program costs, beside other programs: start, idle, snapshots; and soak it."""
