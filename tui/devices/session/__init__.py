"""The children that read the machine, and what a screen can request of them."""
