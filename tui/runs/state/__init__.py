"""Requested runs and comparisons, and their parameters."""
