"""A watched run as a screen follows it."""
