"""Numbers, units, glyphs and names as text. No Textual."""
