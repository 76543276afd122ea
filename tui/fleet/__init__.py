"""Comparison of equal devices of several hosts: the slow device, and how it differs."""
