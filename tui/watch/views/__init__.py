"""Watched runs as lines of text."""
