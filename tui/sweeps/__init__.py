"""A workload over a range of parameters: its points, curves and result."""
