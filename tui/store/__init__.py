"""What is known now, and the events that change it."""
