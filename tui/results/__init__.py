"""Stored results, which outlive the program and can be compared.

Only the front end opens the store; the runner does not access it.
"""
