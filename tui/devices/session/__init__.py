"""The child processes that read the machine, and the requests that a screen can send them."""
