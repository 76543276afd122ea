"""The terminal: what it can draw, what goes to it, how it is left."""
