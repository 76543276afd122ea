"""The processes' column adds up to the device's figure, and says what it cannot attribute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, NOW, WORKER, gpu, gpu_process, host, sample
from tui.monitor.messages import DeviceMemory, GpuProcess, HostProcesses, Sample
from tui.state.pairing import CPU, DeviceView
from tui.state.store import Store
from tui.ui.views.lines import plain, width
from tui.ui.views.processes import (
    CONTAINER,
    Holders,
    heading,
    holders,
    in_order,
    process_line,
    remainder_lines,
)


def _views(seen: Sample) -> tuple[DeviceView, ...]:
    store = Store()
    store.apply(seen)
    return store.devices


def _view(**changes: object) -> tuple[DeviceView, Holders]:
    seen = sample(gpu(0, **changes))
    view = _views(seen)[0]
    return view, holders(view, seen, "memory", NOW)


def _amount(found: Holders, label: str) -> int | None:
    return next(item.memory for item in found.remainders if item.label == label)


@given(st.lists(st.integers(0, 3 * GIB), max_size=8), st.integers(0, 30 * GIB))
def test_processes_and_remainder_make_what_is_used(sizes: list[int], used: int) -> None:
    rows = tuple(gpu_process(pid, size) for pid, size in enumerate(sizes, start=10))
    total = 80 * GIB
    _, found = _view(processes=rows, memory=DeviceMemory(total, used, total - used, 0))
    known = sum(sizes)
    labels = [item.label for item in found.remainders]
    if known <= used:
        assert known + (_amount(found, "unattributed") or 0) == used
        assert "counted twice" not in labels
    else:
        assert known - (_amount(found, "counted twice") or 0) == used
    assert _amount(found, "device used") == used
    assert _amount(found, "total") == total


def test_without_a_list_all_that_is_used_is_unattributed_and_the_container_is_explained() -> None:
    _, found = _view(processes=())
    assert _amount(found, "unattributed") == int(20.7 * GIB)
    assert CONTAINER in found.notes


def test_a_process_without_a_figure_is_named_as_the_reason_for_the_remainder() -> None:
    row = gpu_process(5, None, unavailable={"memory": "not offered under MIG"})
    _, found = _view(processes=(row,))
    (rest,) = [item for item in found.remainders if item.label == "unattributed"]
    assert rest.about.startswith("1 process above without a figure")
    assert "not offered under MIG" in plain(process_line(row, None, NOW, 200))


def test_what_the_device_does_not_say_is_unknown_and_not_zero() -> None:
    _, found = _view(
        memory=DeviceMemory(None, None, None, None), unavailable={"memory.used": "needs root"}
    )
    assert _amount(found, "unattributed") is None
    assert any("needs root" in plain(row) for row in remainder_lines(found, 80))


def test_the_host_says_that_resident_sizes_count_shared_pages() -> None:
    rows = (gpu_process(1, 9 * GIB, kind="resident"), gpu_process(2, 6 * GIB, kind="resident"))
    seen = sample(host=host(), host_processes=HostProcesses(rows, 3, GIB, 2))
    view = next(view for view in _views(seen) if view.key == CPU)
    found = holders(view, seen, "memory", NOW)
    assert _amount(found, "others") == GIB
    assert _amount(found, "counted twice") == 4 * GIB
    assert any("2 processes of other users" in note for note in found.notes)


ROWS = st.lists(
    st.builds(
        gpu_process,
        st.integers(1, 99999),
        st.none() | st.integers(0, 2**40),
        user=st.none() | st.text(max_size=3),
        started_at=st.none() | st.floats(0, NOW),
    ),
    max_size=10,
)


@given(ROWS, st.sampled_from(["memory", "pid", "user", "age"]))
def test_sorting_loses_nobody_and_puts_the_unknown_last(rows: list[GpuProcess], order: str) -> None:
    found = in_order(tuple(rows), order)  # type: ignore[arg-type]
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    known = [
        {"memory": row.memory, "pid": row.pid, "user": row.user, "age": row.started_at}[order]
        is not None
        for row in found
    ]
    assert known == sorted(known, reverse=True)


@given(ROWS, st.integers(20, 140))
def test_every_line_fits(rows: list[GpuProcess], cells: int) -> None:
    assert width(heading("memory", cells)) <= cells
    assert all(width(process_line(row, WORKER, NOW, cells)) <= cells for row in rows)


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_our_worker_is_named_as_what_it_is(cells: int) -> None:
    assert "this workbench's worker" in plain(process_line(gpu_process(), WORKER, NOW, cells))


def test_a_rank_of_ours_is_named_as_one_of_this_workbench() -> None:
    rank = gpu_process(5001, ours=True, command="python rank_start.py")
    assert "of this workbench: python rank_start.py" in plain(process_line(rank, WORKER, NOW, 100))
    assert "of this workbench" not in plain(process_line(gpu_process(5), WORKER, NOW, 100))
