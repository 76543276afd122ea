"""Folders of watched runs: how runs start, what is written into their folders, how they end."""
