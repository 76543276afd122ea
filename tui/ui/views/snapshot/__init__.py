"""The snapshot tab as lines. Pure."""
