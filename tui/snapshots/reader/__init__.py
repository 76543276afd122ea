"""The snapshot reader: its messages, methods and limits."""
