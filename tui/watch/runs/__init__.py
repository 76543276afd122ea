"""Folders of watched runs: how they start, what is written into them, how they end."""
