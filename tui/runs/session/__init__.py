"""The session: the runner beside the monitor and the watch, and what a screen can request."""
