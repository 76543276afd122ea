"""Foundations of every part: child processes, settings, reports, text. No Textual."""
