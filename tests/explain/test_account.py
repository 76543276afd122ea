"""The account of the used memory, and the device's capacity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.explain.scenes import (
    FORWARD,
    GIB,
    MIB,
    container,
    evidence,
    inventory,
    part,
    variable,
)
from tui.snapshots.explain.account import compute_account, infer_capacity
from tui.snapshots.explain.evidence import Evidence, Holder, Purpose
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.leak import find_leak

BYTES = st.integers(0, 16 * GIB)
MAYBE = st.none() | BYTES


@settings(deadline=None, max_examples=200)
@given(
    numbers=st.lists(BYTES, min_size=9, max_size=9),
    maybe=st.lists(MAYBE, min_size=5, max_size=5),
    parts=st.lists(st.integers(0, 9000), min_size=6, max_size=6),
    steps=st.lists(st.integers(0, 9000), max_size=12),
    graphs=st.booleans(),
)
def test_the_account_adds_up_to_what_is_used(
    numbers: list[int],
    maybe: list[int | None],
    parts: list[int],
    steps: list[int],
    graphs: bool,
) -> None:
    """Also where the sources contradict each other."""
    taken = inventory(
        part("parameters", parts[0]),
        part("gradients", parts[1]),
        container("kept", parts[2], 40, graphs=40 * graphs),
        variable("x", parts[3], 900 * graphs),
        other=parts[4],
        remainder=parts[5],
        steps=tuple(enumerate(steps, 1)),
    )
    found = Evidence(
        device=0,
        requested=numbers[0],
        needed=numbers[0],
        allocated=numbers[1],
        rounding=maybe[0],
        reserved=numbers[2],
        free=maybe[1],
        total=maybe[2],
        pending=numbers[3],
        stuck=numbers[4],
        largest=numbers[5],
        streams_cached=numbers[6],
        graphs_cached=numbers[7],
        private_cached=numbers[8],
        process=maybe[3],
        others=maybe[4],
        stack=FORWARD,
        inventory=taken,
    )
    told = compute_account(found, find_leak(found))
    assert sum(row.bytes for row in told.rows) == told.used
    assert all(row.bytes > 0 for row in told.rows)
    if told.used:
        assert sum(row.share for row in told.rows) == pytest.approx(1)
    if found.total is not None and found.free is not None and found.free <= found.total:
        assert told.used == max(found.total - found.free, found.reserved)
    explain(found)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (76.3, "an 80 GB device"),
        (79.2, "an 80 GB device"),
        (23.6, "a 24 GB device"),
        (139.8, "a 141 GB device"),
        (14.9, "a 16 GB device"),
        (50.0, "at least 50 GiB"),
    ],
)
def test_the_usual_size_that_the_known_least_nearly_fills(known: float, words: str) -> None:
    size = int(known * GIB)
    found = evidence(
        allocated=size - GIB, reserved=size - GIB, free=GIB, total=None, process=None, others=None
    )
    assert infer_capacity(found).words == words


def test_another_process_has_one_line_although_its_command_has_several() -> None:
    other = Holder(4711, 4 * GIB, "ann", "python -c \nimport torch\nhold(4)\n")
    found = explain(
        evidence(
            holders=(other,),
            others=4 * GIB,
            total=6 * GIB + GIB // 2,
            allocated=2 * GIB,
            reserved=2 * GIB,
            process=2 * GIB + GIB // 2,
        )
    )
    assert "process 4711 ann python -c import torch hold(4)" in found.line
    assert "\n" not in found.line + found.advice[0].what


def forward(size: int, site: str = "", part: int = 0, older: int = 0) -> Purpose:
    return Purpose("forward pass", size * GIB, site, part * GIB, older * GIB)


@pytest.mark.parametrize(
    ("purposes", "words"),
    [
        ((forward(6, "net.py:8 forward", 4),), "mostly net.py:8 forward"),
        ((forward(6, "net.py:8 forward", 3),), "3 GiB at net.py:8 forward"),
        (
            (forward(3, "net.py:8 forward", 2), forward(3, "net.py:8 forward", 2)),
            "mostly net.py:8 forward",
        ),
        (
            (forward(4, "net.py:8 forward", 2), forward(2, "net.py:9 forward", 2)),
            "2 GiB at net.py:8 forward",
        ),
        (
            (forward(2, "net.py:8 forward", 2), forward(4, older=4)),
            "mostly older than the recording",
        ),
        ((forward(6),), "by their stacks"),
    ],
)
def test_a_row_says_mostly_only_of_more_than_half_of_its_bytes(
    purposes: tuple[Purpose, ...], words: str
) -> None:
    account = compute_account(evidence(purposes=purposes), None)
    (row,) = [row for row in account.rows if row.name == "activations"]
    assert row.bytes == 6 * GIB
    assert row.description == words


@pytest.mark.parametrize(
    ("process", "text", "names"),
    [
        (7 * GIB - 4 * MIB, True, ["live tensors", "outside torch"]),
        (7 * GIB - 40 * MIB, True, ["live tensors", "outside torch", "unknown"]),
        (7 * GIB - 4 * MIB, False, ["live tensors", "outside torch", "unknown"]),
    ],
)
def test_what_an_exception_s_text_rounds_off_is_no_memory_of_others(
    process: int, text: bool, names: list[str]
) -> None:
    found = evidence(
        allocated=6 * GIB,
        reserved=6 * GIB,
        total=8 * GIB,
        free=GIB,
        process=process,
        others=0,
        text=text,
    )
    rows = compute_account(found, None).rows
    assert [row.name for row in rows] == names
    assert sum(row.bytes for row in rows) == 7 * GIB


@pytest.mark.parametrize(
    ("total", "of_gpu", "expected"),
    [
        (7 * GIB + 409 * MIB, 8 * GIB, "7.4 GiB usable (8 GiB less 615 MiB for the driver)"),
        (8 * GIB, 8 * GIB, "8 GiB"),
        (8 * GIB, None, "8 GiB"),
        # Half of a GPU is that of a MIG instance.
        (40 * GIB, 80 * GIB, "40 GiB"),
        (None, 8 * GIB, "at least 510 MiB"),
    ],
)
def test_the_capacity_names_what_the_driver_reserves(
    total: int | None, of_gpu: int | None, expected: str
) -> None:
    found = evidence(allocated=0, reserved=0, total=total, gpu_total=of_gpu)
    assert explain(found).device_words == expected
