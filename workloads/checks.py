"""Hold a result against the same computed on the CPU in float64."""

from __future__ import annotations

import math

import torch

from workloads.results import Check


def against_float64(
    result: torch.Tensor, reference: torch.Tensor, tolerance: float, what: str
) -> Check:
    """The largest difference over the largest entry of the reference.

    Args:
        result: of any device and precision.
        reference: float64, on the CPU, of the same shape.
        tolerance: of the relative error.
        what: was compared, for the reader.
    """
    difference = (result.detach().cpu().double() - reference).abs().max()
    error = float(difference / reference.abs().max())
    known = math.isfinite(error)
    return Check(known and error <= tolerance, error if known else None, tolerance, what)
