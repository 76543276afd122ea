"""Programs that run out of memory for a known reason, and what is said of each."""
