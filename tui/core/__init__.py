"""What every part stands on: child processes, settings, reports, text. No Textual."""
