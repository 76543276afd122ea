"""The processes' column adds up to the device's figure, and says what it cannot attribute."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import (
    GIB,
    NOW,
    WORKER,
    gpu,
    gpu_process,
    host,
    make_store,
    sample,
)
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.views.holders import (
    CONTAINER,
    NO_SIMULATED,
    Holders,
    add_holders,
    holders,
    remainder_lines,
)
from tui.devices.views.process_page import process_page
from tui.devices.views.process_rows import (
    ORDERS,
    Order,
    ProcessRow,
    build_row,
    process_rows,
    read_sort_value,
    total_sort_value,
)
from tui.devices.views.processes import (
    find_order,
    heading,
    process_line,
    selected_lines,
)
from tui.kit.lines import plain, width
from tui.monitor.messages import (
    DeviceMemory,
    GpuProcess,
    HostProcesses,
    ParentProcess,
    Sample,
)
from tui.runs.state.state import WorkbenchState


def _views(seen: Sample) -> tuple[DeviceView, ...]:
    state = WorkbenchState()
    state.publish(seen)
    return state.machine.devices


def _view(**changes: object) -> tuple[DeviceView, Holders]:
    seen = sample(gpu(0, **changes))
    view = _views(seen)[0]
    return view, holders(view, seen, NOW)


def _amount(actual: Holders, label: str) -> int | None:
    return next(item.memory for item in actual.remainders if item.label == label)


@given(st.lists(st.integers(0, 3 * GIB), max_size=8), st.integers(0, 30 * GIB))
def test_processes_and_remainder_make_what_is_used(sizes: list[int], used: int) -> None:
    rows = tuple(gpu_process(pid, size) for pid, size in enumerate(sizes, start=10))
    total = 80 * GIB
    _, actual = _view(processes=rows, memory=DeviceMemory(total, used, total - used, 0))
    known = sum(sizes)
    labels = [item.label for item in actual.remainders]
    if known <= used:
        assert known + (_amount(actual, "unattributed") or 0) == used
        assert "counted twice" not in labels
    else:
        assert known - (_amount(actual, "counted twice") or 0) == used
    assert _amount(actual, "device used") == used
    assert _amount(actual, "total") == total


def test_without_a_list_all_that_is_used_is_unattributed_and_the_container_is_explained() -> None:
    _, actual = _view(processes=())
    assert _amount(actual, "unattributed") == int(20.7 * GIB)
    assert CONTAINER in actual.notes


def test_a_process_without_a_figure_is_named_as_the_reason_for_the_remainder() -> None:
    row = gpu_process(5, None, unavailable={"memory": "not offered under MIG"})
    _, actual = _view(processes=(row,))
    (rest,) = [item for item in actual.remainders if item.label == "unattributed"]
    assert rest.about.startswith("1 process without a figure")
    assert "not offered under MIG" in plain(
        process_line(build_row(row, "cuda:0", 0, None), NOW, 200)
    )


def test_what_the_device_does_not_say_is_unknown_and_not_zero() -> None:
    _, actual = _view(
        memory=DeviceMemory(None, None, None, None), unavailable={"memory.used": "needs root"}
    )
    assert _amount(actual, "unattributed") is None
    assert any("needs root" in plain(row) for row in remainder_lines(actual, "cuda:0", 80))


def test_the_accounts_of_several_gpus_add_up() -> None:
    total, used = 80 * GIB, 30 * GIB
    memory = DeviceMemory(total, used, total - used, 0)
    _, first = _view(processes=(gpu_process(5, 20 * GIB),), memory=memory)
    _, second = _view(processes=(gpu_process(6, 31 * GIB),), memory=memory)
    both = add_holders([first, second])
    assert [item.label for item in both.remainders] == [
        *("processes", "unattributed", "counted twice", "device used", "driver", "free", "total")
    ]
    assert _amount(both, "processes") == 51 * GIB
    assert _amount(both, "device used") == 2 * used
    assert _amount(both, "total") == 2 * total
    assert add_holders([first]) is first
    _, silent = _view(memory=DeviceMemory(None, None, None, None), unavailable={})
    assert _amount(add_holders([first, silent]), "device used") is None


def test_the_host_says_that_resident_sizes_count_shared_pages() -> None:
    rows = (gpu_process(1, 9 * GIB, kind="resident"), gpu_process(2, 6 * GIB, kind="resident"))
    seen = sample(host=host(), host_processes=HostProcesses(rows, 3, GIB, 2))
    view = next(view for view in _views(seen) if view.key == CPU)
    actual = holders(view, seen, NOW)
    assert _amount(actual, "others") == GIB
    assert _amount(actual, "counted twice") == 4 * GIB
    assert any("2 processes of other users" in note for note in actual.notes)


PARENTS = st.none() | st.builds(
    ParentProcess, st.integers(1, 40), st.just("ada"), st.just("torchrun"), st.integers(0, 9)
)
ROWS = st.lists(
    st.builds(
        gpu_process,
        st.integers(1, 40),
        st.none() | st.integers(0, 2**40),
        user=st.none() | st.text(max_size=3),
        started_at=st.none() | st.integers(0, 9),
        sm_percent=st.none() | st.integers(0, 100),
        cpu_percent=st.none() | st.floats(0, 400),
        host_memory=st.none() | st.integers(0, 2**40),
        parent=PARENTS,
    ),
    max_size=10,
    unique_by=lambda row: row.pid,
)


def table(
    *devices: list[GpuProcess],
    order: Order = "memory",
    pattern: str = "",
    before: Sequence[str] = (),
) -> tuple[ProcessRow, ...]:
    """Return the rows of GPUs with these processes."""
    seen = sample(*(gpu(at, processes=tuple(rows)) for at, rows in enumerate(devices)))
    return process_rows(
        _views(seen),
        seen,
        of_host=False,
        worker_pid=WORKER,
        pattern=pattern,
        order=order,
        before=before,
    )


def launched(rows: Sequence[ProcessRow]) -> list[tuple[int, int | None]]:
    return [(row.depth, row.pid) for row in rows if row.pid]


def _highest_in_tree(rows: Sequence[ProcessRow], root: ProcessRow, order: Order) -> float | None:
    """Return the highest sort figure of a root and the rows below it; ``None`` if none is known."""
    below = itertools.takewhile(lambda row: row.depth > 0, rows[rows.index(root) + 1 :])
    values = [read_sort_value(row, order) for row in (root, *below)]
    return max((value for value in values if value is not None), default=None)


@given(ROWS, ROWS, st.sampled_from(ORDERS))
def test_sorting_loses_nobody_and_puts_the_unknown_last(
    first: list[GpuProcess], other: list[GpuProcess], order: Order
) -> None:
    rows = table(first, other, order=order)
    assert sorted(repr(row.process) for row in rows if row.process) == sorted(
        map(repr, first + other)
    )
    assert len({row.key for row in rows}) == len(rows)
    siblings = [row for row in rows if row.depth == 0 and row.pid]
    by_place: dict[str, list[object]] = {
        "gpu": [row.position for row in siblings],
        "pid": [row.pid for row in siblings],
        "user": [row.user for row in siblings],
        "age": [row.started_at for row in siblings],
    }
    values = by_place.get(order, [_highest_in_tree(rows, row, order) for row in siblings])
    known = [value is not None for value in values]
    assert known == sorted(known, reverse=True)


@given(ROWS, st.integers(0, 140), st.booleans())
def test_every_line_fits(rows: list[GpuProcess], cells: int, of_host: bool) -> None:
    assert width(heading("memory", cells, of_host=of_host)) <= cells
    for row in table(rows):
        assert width(process_line(row, NOW, cells, of_host=of_host)) <= cells


def test_the_ranks_of_a_launcher_stand_below_it_with_their_sums() -> None:
    torchrun = ParentProcess(900, "ada", "torchrun train.py", NOW - 60)
    ranks = [
        gpu_process(901 + at, (at + 1) * GIB, cpu_percent=100.0, host_memory=GIB, parent=torchrun)
        for at in range(3)
    ]
    shell = ParentProcess(800, "bob", "bash", NOW - 90)
    alone = gpu_process(801, 4 * GIB, parent=shell)
    # The second rank is on two GPUs: its processor time is one process's.
    rows = table([ranks[0], ranks[1], alone], [ranks[1], ranks[2]])

    assert launched(rows) == [(0, 900), (1, 903), (1, 902), (1, 902), (1, 901), (0, 801)]
    launcher = rows[0]
    assert launcher.process is None
    assert (launcher.gpu, launcher.memory) == ("2 GPUs", 8 * GIB)
    assert (launcher.cpu_percent, launcher.host_memory) == (300.0, 3 * GIB)

    def mark(row: ProcessRow) -> str:
        return plain(process_line(row, NOW, 100)).partition("python train.py")[0][-4:]

    assert [mark(row).strip() for row in rows[1:5]] == ["├", "├", "├", "└"]
    assert mark(replace(rows[4], branches=(True, False))) == "│ └ "
    assert mark(replace(rows[4], branches=(False, True))) == "  ├ "


def test_a_process_of_the_list_stands_above_what_it_started() -> None:
    main = gpu_process(10, GIB, started_at=NOW - 9)
    child = gpu_process(
        11, 9 * GIB, started_at=NOW - 5, parent=ParentProcess(10, "ada", "python", NOW - 9)
    )
    assert launched(table([child, main])) == [(0, 10), (1, 11)]
    # The same PID of another time is another process.
    stale = replace(child, parent=ParentProcess(10, "ada", "python", NOW - 99))
    assert launched(table([stale, main])) == [(0, 11), (0, 10)]


@pytest.mark.parametrize(
    ("pattern", "pids"),
    [("", [5, 6, 7]), ("torchrun", [6, 7]), ("cuda:1 train", [7]), ("BOB", [5]), ("7", [7])],
)
def test_a_filter_finds_gpu_pid_user_command_and_launcher(pattern: str, pids: list[int]) -> None:
    torchrun = ParentProcess(900, "ada", "torchrun train.py", NOW - 60)
    rows = table(
        [gpu_process(5, GIB, user="bob", command="serve"), gpu_process(6, GIB, parent=torchrun)],
        [gpu_process(7, GIB, parent=torchrun)],
        order="pid",
        pattern=pattern,
    )
    assert sorted(row.pid for row in rows if row.process and row.pid) == pids


def test_shares_of_time_that_change_a_little_do_not_make_rows_jump() -> None:
    def shown(one: float, other: float, before: Sequence[str]) -> tuple[ProcessRow, ...]:
        rows = [gpu_process(1, GIB, sm_percent=one), gpu_process(2, GIB, sm_percent=other)]
        return table(rows, order="sm", before=before)

    first = shown(50, 40, ())
    assert launched(first) == [(0, 1), (0, 2)]
    keys = [row.key for row in first]
    assert launched(shown(50, 60, keys)) == [(0, 1), (0, 2)]
    assert launched(shown(50, 61, keys)) == [(0, 2), (0, 1)]


def test_what_nobody_is_known_to_hold_has_a_row_where_it_is_much() -> None:
    seen = sample(gpu(0, processes=()), gpu(1))
    rows = process_rows(
        _views(seen), seen, of_host=False, worker_pid=None, pattern="", order="sm", before=()
    )
    (nobody,) = rows
    assert (nobody.gpu, nobody.memory, nobody.process) == ("cuda:0", int(20.7 * GIB), None)
    assert "unattributed" in plain(process_line(nobody, NOW, 80))


def test_a_heading_of_the_table_sorts_by_its_column() -> None:
    drawn = plain(heading("memory", 120))
    for word, order in (("memory", "memory"), ("sm", "sm"), ("cpu", "cpu"), ("gpu", "gpu")):
        assert find_order(drawn.index(word), 120) == order
    assert find_order(drawn.index("command"), 120) is None


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_our_worker_is_named_as_what_it_is(cells: int) -> None:
    (row, *_) = table([gpu_process()])
    assert "the workbench's runner" in plain(process_line(row, NOW, cells))


def test_a_rank_of_ours_is_named_as_one_of_this_workbench() -> None:
    rank = build_row(
        gpu_process(5001, ours=True, command="python rank_start.py"), "cuda:0", 0, WORKER
    )
    assert "of this workbench: python rank_start.py" in plain(process_line(rank, NOW, 120))
    started = "/home/me/.venv/bin/python /opt/workbench/entry.py monitor"
    (ours, *_) = table([gpu_process(5002, ours=True, command=started)])
    drawn = plain(process_line(ours, NOW, 160))
    assert "of this workbench: python entry.py monitor  from /opt/workbench" in drawn
    stranger = build_row(gpu_process(5), "cuda:0", 0, WORKER)
    assert "of this workbench" not in plain(process_line(stranger, NOW, 120))


def test_below_the_table_stands_why_a_figure_of_the_row_is_missing() -> None:
    absent = {"sm_percent": "not offered under MIG", "memory": "not offered under MIG"}
    row = build_row(gpu_process(5, None, unavailable=absent), "cuda:0", 0, None)
    assert "sm, memory n/a: not offered under MIG" in [
        plain(each) for each in selected_lines(row, 80)
    ]


def test_a_tree_is_sorted_by_what_is_below_and_flat_by_each_row() -> None:
    shell = gpu_process(10, 1 * GIB, command="python small_parent.py")
    parent = ParentProcess(10, "ada", "python small_parent.py", shell.started_at or 0.0)
    child = gpu_process(
        11, 8 * GIB, command="python big_child.py", parent=parent, started_at=NOW + 5
    )
    other = gpu_process(12, 4 * GIB, command="python other.py", started_at=NOW + 5)
    views = make_store("one gpu", sample(gpu(processes=(shell, child, other)))).machine
    for flat, order in ((False, [10, 11, 12]), (True, [11, 12, 10])):
        rows = process_rows(
            views.devices,
            views.sample,
            of_host=False,
            worker_pid=None,
            pattern="",
            order="memory",
            before=(),
            flat=flat,
        )
        assert [row.pid for row in rows if row.pid] == order
        assert [row.depth for row in rows if row.pid] == ([0, 1, 0] if not flat else [0, 0, 0])


def test_the_total_of_a_peak_is_the_highest_and_a_launchers_is_its_own() -> None:
    low, high = (
        ProcessRow("a", "cuda:0", 1, None, "", memory=2),
        ProcessRow("b", "cuda:0", 2, None, "", memory=3),
    )
    launcher = ProcessRow("l", "2 GPUs", 3, None, "", memory=5, kind="launcher")
    below = {"l": [low, high], "a": [high]}
    assert total_sort_value(low, "memory", below) == 5
    assert total_sort_value(launcher, "memory", below) == 5
    assert total_sort_value(high, "sm", below) is None


def test_a_simulated_gpu_without_a_list_gets_no_advice_on_drivers_and_containers() -> None:
    reason = "driver too old for this figure"
    seen = sample(gpu(0, processes=None, unavailable={"processes": reason}))
    view = _views(seen)[0]
    assert holders(view, seen, NOW).notes == (f"processes n/a: {reason}", CONTAINER)
    actual = holders(view, seen, NOW, simulated=True)
    assert actual.notes == (f"processes n/a: {NO_SIMULATED}",)


def test_the_row_of_an_invisible_process_leaves_the_reason_to_the_lines_below() -> None:
    reason = "no such process: it has ended, is hidden from this user, or runs in a container"
    absent = {"user": reason, "command": reason}
    item = gpu_process(7, user=None, command=None, unavailable=absent)
    row = build_row(item, "cuda:0", 0, None)
    assert plain(process_line(row, NOW, 100)).rstrip().endswith("n/a (not visible)")
    assert reason in " ".join(" ".join(map(plain, selected_lines(row, 100))).split())


def test_the_page_of_a_process_on_the_cpu_has_its_memory_once_and_nothing_of_a_gpu() -> None:
    row = gpu_process(7, memory=None, host_memory=3 << 30)
    page = "\n".join(plain(each) for each in process_page(row, "cpu", None, 1.0, 80))
    assert "3.0 GiB" in page
    assert "multiprocessors" not in page
    assert "memory on" not in page
    assert "memory on cuda:0" in "\n".join(map(plain, process_page(row, "cuda:0", None, 1.0, 80)))
