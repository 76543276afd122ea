"""Recordings of the children's messages, and their replay. No Textual, no torch."""
