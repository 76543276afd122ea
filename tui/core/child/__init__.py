"""Both sides of a child process: the parent's control, and the child's channel and end."""
