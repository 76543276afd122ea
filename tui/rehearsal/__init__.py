"""Rehearse a program on a GPU that is not there."""
