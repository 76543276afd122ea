"""Sweeps as curves, crossovers and tables, and rooflines."""
