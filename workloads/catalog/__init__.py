"""The workloads. Importing this package declares them all, without torch."""

from workloads.catalog import compute, convolution, pitfalls, training, transfer

__all__ = ["compute", "convolution", "pitfalls", "training", "transfer"]
