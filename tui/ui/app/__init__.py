"""The app: its wiring, and what each command does."""
