"""Record what the children say, and play it back as if live. No Textual, no torch."""
