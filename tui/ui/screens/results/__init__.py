"""The results tab: what is kept, compared, and over time."""
