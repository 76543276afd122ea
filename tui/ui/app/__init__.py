"""The app: its wiring, when it draws, and what its process needs."""
