"""A snapshot as it is held in memory, and what the analysis of one returns."""
