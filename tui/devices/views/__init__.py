"""Devices, memory and processes as lines of text."""
