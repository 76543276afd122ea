"""The session: runner, monitor and watch, and the requests that a screen can make."""
