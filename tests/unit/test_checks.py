"""What a result's check says of it, at the edges: a reference of zeros, numbers that are none."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.results import result as made
from tests.unit.test_study import Scripted, _study
from workloads.catalog.shared.models import largest_difference
from workloads.declare.place import against_float64, ratio, relative
from workloads.runner.reporting import checked

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e300)


@pytest.mark.parametrize("difference", [0.0, 1.0, math.inf, math.nan])
def test_a_reference_of_zeros_passes_nobody_and_is_named(difference: float) -> None:
    check = relative(difference, 0.0, 1e-4, "the sum made in Python")
    assert not check.passed
    assert check.error is None
    assert check.against == "the sum made in Python, which is zero everywhere"


def test_a_device_that_computes_nothing_passes_no_check() -> None:
    zeros = torch.zeros(4, 4)
    assert not against_float64(zeros, zeros.double(), 1e-4, "zeros").passed


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_one_entry_that_is_no_number_passes_no_check(wrong: float) -> None:
    reference = torch.ones(3, dtype=torch.float64)
    result = torch.ones(3)
    result[1] = wrong
    check = against_float64(result, reference, 1e-4, "ones")
    assert (check.passed, check.error) == (False, None)


@given(difference=finite, largest=finite.filter(bool), tolerance=finite)
def test_a_check_passes_where_the_relative_error_is_within_its_tolerance(
    difference: float, largest: float, tolerance: float
) -> None:
    check = relative(difference, largest, tolerance, "any")
    error = ratio(difference, largest)
    assert check.passed == (math.isfinite(error) and error <= tolerance)
    assert check.against == "any"


def test_gradients_that_are_all_zero_have_no_relative_difference() -> None:
    zeros = [torch.zeros(2), torch.zeros(3)]
    assert math.isnan(largest_difference(zeros, zeros))
    assert largest_difference(zeros, [torch.ones(2), torch.ones(3)]) == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_finite_number_is_told_as_unknown_with_its_reason(
    value: float,
) -> None:
    study = _study(Scripted())
    study.figure("ratio", value, "x", "one over the other")
    assert study.figures["ratio"].value is None
    assert study.unavailable["figures.ratio"]


def test_a_wrong_result_by_a_reference_of_zeros_says_so() -> None:
    result = checked(made(), relative(0.0, 0.0, 1e-4, "the sum"))
    assert result.status == "failed"
    assert result.reason is not None
    assert result.reason.endswith("against the sum, which is zero everywhere")
