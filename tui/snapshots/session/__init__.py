"""Clients of the snapshot reader."""
