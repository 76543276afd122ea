"""Snapshots as lines of text."""
