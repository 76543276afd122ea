"""What is known now: the store, the events that change it, readings and their age. No Textual."""
