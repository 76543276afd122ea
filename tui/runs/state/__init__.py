"""Runs and comparisons that were asked for, and their parameters."""
