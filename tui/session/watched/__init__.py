"""A run under the watch, live or replayed: its samples, its agents, its output, its end."""
