"""Equal devices of several hosts, compared: which one is slow, and what is different about it."""
