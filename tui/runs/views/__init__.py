"""Runs, sweeps and comparisons as lines of text."""
