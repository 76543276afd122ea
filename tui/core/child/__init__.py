"""Both ends of a child process: starting, feeding, reading and ending it, and its own end."""
