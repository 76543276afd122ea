"""The command fleet."""
