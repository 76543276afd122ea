"""Rehearse a program on a simulated GPU."""
