"""Measure time and memory, and evaluate the figures: clocks, blocks, intervals."""
