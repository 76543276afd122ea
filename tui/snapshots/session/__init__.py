"""The child that reads a snapshot, as screens and commands ask it."""
