"""The Textual app: its tabs, when it draws, how it ends."""
