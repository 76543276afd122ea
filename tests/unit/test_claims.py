"""A result whose check has not passed says how long it took, and not how fast it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.results import result
from tui.headless.waiter import explain_missing_device
from tui.kit.lines import plain
from tui.runs.views.outcome import check_lines
from tui.runs.views.result_text import format_summary
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


def test_a_wrong_variant_keeps_no_interval_or_verdict() -> None:
    names = (("time", "s"), ("speed-up", "x"), ("interval", ""), ("verdict", ""))
    columns = tuple(DataColumn(*name) for name in names)
    table = Table("ways", "ways", columns, ((1.0, 1.0, "", ""), (1.0, 1.0, "1 to 1", "same")))
    after = drop_invalid_claims(full(status="failed", check=FAILED, tables=(table,)))
    assert after.tables[0].rows == ((1.0, None, "", ""), (1.0, None, "", ""))


def test_a_failed_check_is_described_once() -> None:
    reason = "wrong result: error not a number, tolerance 0.0001, against the sum"
    check = Check(False, None, 1e-4, "the sum")
    wrong = result("matmul", "cpu", status="failed", reason=reason, check=check)
    assert format_summary(wrong).endswith("failed: wrong result")
    assert [plain(row).strip() for row in check_lines(wrong, 100)] == [
        "check FAILED: the result is wrong: its error is NaN (tolerance 0.0001) against the sum"
    ]


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("", "no device cuda:1: torch has cpu"),
        (
            "no CUDA devices: this torch is built without CUDA",
            "no device cuda:1: this torch is built without CUDA (only cpu)",
        ),
    ],
)
def test_a_missing_device_is_explained_once(why: str, said: str) -> None:
    assert explain_missing_device("cuda:1", ["cpu"], why) == said
