"""Stored results as lines of text."""
