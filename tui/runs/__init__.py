"""Runs of workloads: parameters, sweeps, flags, limits."""
