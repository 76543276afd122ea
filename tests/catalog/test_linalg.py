"""Equations and eigenvalues: the formulas against a count by hand, the result against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from workloads.catalog.health.operations import NO_COUNT
from workloads.declare.place import cholesky_flop, solve_flop


def _eliminated(n: int, right: int) -> int:
    """Operations of Gaussian elimination and of both substitutions, one by one."""
    count = 0
    for column_index in range(n):
        for _row in range(column_index + 1, n):
            count += 1  # the factor
            count += 2 * (n - column_index - 1)  # a product and a difference for each entry
    for row in range(n):
        count += right * 2 * row  # the lower triangle has ones on its diagonal
        count += right * (2 * row + 1)  # the upper one has to be divided by
    return count


def _decomposed(n: int) -> int:
    """Operations of a Cholesky factorization, one by one; a square root is one."""
    count = 0
    for row in range(n):
        for column_index in range(row + 1):
            count += 2 * column_index + 1
    return count


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 24), st.integers(1, 5))
def test_the_formulas_agree_with_a_count_operation_by_operation(n: int, right: int) -> None:
    assert solve_flop(n, right) == _eliminated(n, right)
    assert cholesky_flop(n) == _decomposed(n)


@pytest.mark.parametrize(("n", "right"), [(2, 1), (48, 1), (48, 64)])
def test_equations_are_solved_and_the_eigenvalues_add_up_to_the_trace(n: int, right: int) -> None:
    result = ok("linalg", n=n, right=right)
    assert result.check is not None
    assert result.check.passed
    assert result.figures["eigenvalues_over_trace"].value == pytest.approx(1, abs=1e-4)
    assert column(result, "operations", "operation") == [
        "product", "solve", "Cholesky", "symmetric eigenvalues", "eigenvalues"
    ]  # fmt: skip
    assert min(numbers(result, "operations", "time")) > 0
    rates = column(result, "operations", "rate")
    assert None not in rates[:3]
    assert rates[3:] == [None, None]
    assert result.unavailable["tables.operations.rate"] == NO_COUNT
    assert result.time is not None
    assert result.rates.flop_per_s is not None
    counted = result.rates.flop_per_s * result.time.median_s
    assert counted == pytest.approx(solve_flop(n, right))


def test_what_has_no_routine_here_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacking(_matrix: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("Calling torch.linalg.eig on a CUDA tensor requires MAGMA\nmore")

    monkeypatch.setattr(torch.linalg, "eigvals", lacking)
    result = ok("linalg", n=16)
    assert "eigenvalues" not in column(result, "operations", "operation")
    assert result.log == (
        "eigenvalues: does not run here: Calling torch.linalg.eig on a CUDA tensor requires MAGMA",
    )


def test_a_system_too_large_for_the_memory_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.declare.place.Place.free_memory", lambda _place: 2**20)
    result = ran("linalg", n=512)
    assert result.status == "skipped"
    assert "matrices of 512 x 512" in (result.reason or "")
