"""The teaching table names workloads that there are, and names each of them."""

from __future__ import annotations

import re
from pathlib import Path

from workloads import catalog
from workloads.declare.workload import infos

assert catalog
TEACHING = Path(__file__).resolve().parents[2] / "docs" / "teaching.md"
BEYOND = {"burn", "ceiling", "device_copy", "elementwise", "peer_copies", "reductions"}
"""Workloads about things that the documents do not speak of."""
BEYOND |= {"cuda_graphs", "matmul_float8", "transformer_compile"}


def _run_column() -> list[str]:
    table = TEACHING.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("|")]
    return [row[2] for row in rows[2:]]


def test_every_workload_that_the_table_names_exists() -> None:
    known = {info.name for info in infos()}
    named = {name for cell in _run_column() for name in re.findall(r"`(\w+)`", cell)}
    assert named <= known


def test_every_workload_is_in_the_table_but_those_that_go_beyond_the_documents() -> None:
    named = {name for cell in _run_column() for name in re.findall(r"`(\w+)`", cell)}
    assert {info.name for info in infos()} - named == BEYOND


def test_every_row_of_the_table_has_something_to_run_or_to_look_at() -> None:
    assert all("`" in cell or "pane" in cell or "tab" in cell for cell in _run_column())
