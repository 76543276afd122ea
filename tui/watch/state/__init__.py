"""The state of a watched run and its processes."""
