"""The teaching table names only workloads of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from workloads import catalog
from workloads.declare.workload import infos

assert catalog
TEACHING = Path(__file__).resolve().parents[2] / "docs" / "teaching.md"


def _run_column() -> list[str]:
    table = TEACHING.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("|")]
    return [row[2] for row in rows[2:]]


def test_every_workload_that_the_table_names_exists() -> None:
    known = {info.name for info in infos()}
    named = {name for cell in _run_column() for name in re.findall(r"`(\w+)`", cell)}
    assert named <= known


def test_every_row_of_the_table_has_something_to_run_or_to_look_at() -> None:
    assert all("`" in cell or "pane" in cell or "tab" in cell for cell in _run_column())
