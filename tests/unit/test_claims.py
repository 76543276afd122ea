"""A result whose check has not passed says how long it took, and not how fast it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.results import result
from workloads.protocol.results import (
    NOT_PASSED,
    Chart,
    Check,
    DataColumn,
    Figure,
    RunResult,
    Series,
    Table,
    drop_invalid_claims,
    may_claim,
)
from workloads.protocol.wire import field_values

PASSED = Check(True, 1e-7, 1e-4, "float64")
FAILED = Check(False, 1.0, 1e-4, "float64")
FIGURES = {"speed_up": Figure(1210.0, "x"), "saved": Figure(4096.0, "byte")}
TABLES = (
    Table("t", "t", (DataColumn("n"), DataColumn("rate", "byte/s")), ((1.0, 5e9), (2.0, 6e9))),
)
CHARTS = (Chart("c", "c", "n", (1.0, 2.0), (Series("cpu", "x", (1.0, 2.0)),), marks=("fast",)),)


def full(**changes: object) -> RunResult:
    made = result("matmul", "cuda:0", figures=FIGURES, tables=TABLES, charts=CHARTS)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "check", "holds"),
    [
        ("ok", PASSED, True),
        ("ok", None, True),
        ("failed", FAILED, False),
        ("ok", FAILED, False),
        ("failed", None, False),
        ("cancelled", None, False),
        # What was studied after the check has failed; the check has passed.
        ("failed", PASSED, True),
    ],
)
def test_a_claim_holds_where_its_check_has_passed(
    status: str, check: Check | None, holds: bool
) -> None:
    before = full(status=status, check=check)
    assert may_claim(before) is holds
    assert (drop_invalid_claims(before) == before) is holds


def test_times_sizes_and_counts_stay_and_each_claim_has_its_reason() -> None:
    before = full(status="failed", check=FAILED)
    after = drop_invalid_claims(before)
    assert (after.time, after.memory, after.check) == (before.time, before.memory, FAILED)
    assert set(field_values(after.rates).values()) == {None}
    assert after.limit is None
    assert (after.figures["speed_up"].value, after.figures["saved"].value) == (None, 4096.0)
    assert after.tables[0].rows == ((1.0, None), (2.0, None))
    assert (after.charts[0].series[0].values, after.charts[0].marks) == ((None, None), ())
    claims = {name for name, value in field_values(before.rates).items() if value is not None}
    expected = {f"rates.{name}" for name in claims} | {"limit", "figures.speed_up"}
    assert {name for name, why in after.unavailable.items() if why == NOT_PASSED} == expected
