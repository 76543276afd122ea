"""Declare a workload: its parameters, its case, its study, its demands on a device."""
