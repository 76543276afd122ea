"""The processes of all GPUs, or of the host, as the rows of one table: a tree, sorted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from tui.allocators.messages import TorchProcess
from tui.core.text import numbers as text
from tui.core.text.commands import distinguish, shorten_command
from tui.devices.memory import ProcessMemory
from tui.devices.memory.model import Absent, Reading, derive, get_value
from tui.devices.memory.others import other_process, unplaced
from tui.devices.state.devices import CPU, DeviceView, find_last_reading
from tui.devices.state.history import sort_with_hysteresis
from tui.devices.state.watched_processes import WatchedProcesses
from tui.devices.views.memory_account import OURS, is_worker, label_command
from tui.monitor.messages import Device, DeviceMemory, GpuProcess, ParentProcess, Sample

N = TypeVar("N", int, float)
Order = Literal[
    "memory", "allocated", "cached", "peak", "sm", "cpu", "host", "gpu", "pid", "user", "age"
]
ORDERS: tuple[Order, ...] = get_args(Order)
MARGINS: Mapping[Order, float] = {
    "memory": 0.0,
    "allocated": 0.0,
    "cached": 0.0,
    "peak": 0.0,
    "sm": 10.0,
    "cpu": 10.0,
    "host": 0.0,
}
"""Orders from the highest figure down. A row moves up once it exceeds the row above by more than
this margin, so that shares of time, which change with each sample, do not make rows jump."""

LEAST_UNATTRIBUTED, UNKNOWN_DRIVER_SHARE = 256 * 2**20, 0.01
"""Bytes above which unattributed memory has a row and a part of a bar: an idle GPU has some
megabytes in use. Where the driver's part is unknown, and may be in it, the share of all memory. The
account of the device always shows it."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One line: a process on one device, a launcher with its processes, or unattributed memory."""

    key: str
    """The key, which includes the start of the process because PIDs are reused."""
    gpu: str
    """The device's name on the screen; for a launcher, the number of its GPUs."""
    pid: int | None
    user: str | None
    command: str
    """The whole command, or its replacement if it is unknown."""
    memory: int | None = None
    """Bytes of device memory; on the host, resident bytes."""
    sm_percent: float | None = None
    cpu_percent: float | None = None
    host_memory: int | None = None
    started_at: float | None = None
    kind: str = ""
    torch: ProcessMemory | None = None
    """The memory of its allocator, or why that is unknown; ``None`` for a process without torch."""
    torch_process: TorchProcess | None = None
    """The description of a torch process."""
    process: GpuProcess | None = None
    """The process that can receive a signal; ``None`` for launchers and unattributed memory."""
    worker: bool = False
    """The process is this program's own worker."""
    position: int = 0
    """The position of its device among the devices."""
    branches: tuple[bool, ...] = ()
    """For each ancestor but the outermost and for itself: whether a sibling follows below."""
    shown: tuple[str, str] = ("", "")
    """The shortened command, and a shorter form that begins with its distinguishing words."""

    @property
    def depth(self) -> int:
        """The number of rows above it that are its ancestors."""
        return len(self.branches)

    @property
    def job(self) -> int | None:
        """Return the PID of its launcher, such as torchrun, else its own."""
        return find_job(self.process) if self.process else self.pid


def find_job(process: GpuProcess) -> int:
    """Return the PID of a process's launcher, such as torchrun, else its own."""
    return process.parent.pid if process.parent else process.pid


def process_rows(
    views: Sequence[DeviceView],
    sample: Sample | None,
    *,
    of_host: bool,
    worker_pid: int | None,
    pattern: str,
    order: Order,
    before: Sequence[str],
    allocators: WatchedProcesses | None = None,
    now: float = 0.0,
    flat: bool = False,
) -> tuple[ProcessRow, ...]:
    """Return the rows in order, each process below the process that started it.

    Siblings are sorted by the totals of what is below them.

    Args:
        views: the devices in the driver's order.
        sample: the monitor's newest; ``None`` before the first.
        of_host: return the host's processes instead of the GPUs' processes.
        worker_pid: this program's worker.
        pattern: words that a row must contain in its GPU, PID, user, command or its launcher's.
        order: the sort order; rows with an unknown value come last.
        before: the keys in the displayed order; empty if the user has just changed the order.
        allocators: allocators of the torch processes, read from outside.
        now: Unix time.
        flat: put no process below another one, and show no launchers.
    """
    if sample is None:
        return ()
    if of_host:
        listed = sample.host_processes.rows if sample.host_processes else ()
        rows = [build_row(item, CPU, 0, worker_pid) for item in listed]
        unattributed: list[ProcessRow] = []
    else:
        rows, unattributed = [], []
        for position, view in enumerate(views):
            device = find_last_reading(view)
            if device is None:
                continue
            own = [
                build_row(item, view.label, position, worker_pid) for item in device.processes or ()
            ]
            if allocators is not None:
                own = [_add_torch(row, allocators, view, now) for row in own]
            rows += own
            unattributed += _build_unattributed_rows(view.label, position, device)
        if allocators is not None:
            rows += _build_unlisted_rows(allocators, rows, len(views), now)
    words = pattern.lower().split()
    rows = [row for row in rows if _matches(row, words)]
    unattributed = [row for row in unattributed if _matches(row, words)]
    if flat:
        return (*_shorten(_make_sorter(order, before, {})(rows)), *unattributed)
    return (*_shorten(_build_tree(rows, order, before)), *unattributed)


def _shorten(rows: Sequence[ProcessRow]) -> list[ProcessRow]:
    """Add the short commands, each beside all others of the list."""
    commands = [row.command.removeprefix(OURS) for row in rows]
    marks = [OURS if row.command.startswith(OURS) else "" for row in rows]
    return [
        replace(row, shown=(mark + shorten_command(command), mark + short))
        for row, mark, command, short in zip(
            rows, marks, commands, distinguish(commands), strict=True
        )
    ]


def build_row(item: GpuProcess, gpu: str, position: int, worker_pid: int | None) -> ProcessRow:
    """Return the row of a process; the text marks processes of this workbench.

    Args:
        item: the process on one device.
        gpu: the device's name on the screen.
        position: position of the device among the devices.
        worker_pid: this program's worker.
    """
    return ProcessRow(
        key=f"{gpu} {item.pid} {item.started_at}",
        gpu=gpu,
        pid=item.pid,
        user=item.user,
        command=label_command(item, item.command or text.NA, worker_pid),
        memory=item.memory,
        sm_percent=item.sm_percent,
        cpu_percent=item.cpu_percent,
        host_memory=item.host_memory,
        started_at=item.started_at,
        kind=item.kind,
        process=item,
        worker=is_worker(item, worker_pid),
        position=position,
    )


def _add_torch(
    row: ProcessRow, allocators: WatchedProcesses, view: DeviceView, now: float
) -> ProcessRow:
    """Return a row of NVML's process list with the figures of torch's allocator."""
    torch_process = allocators.process(row.pid, row.started_at)
    if torch_process is None or row.process is None:
        return row
    return replace(
        row, torch=other_process(allocators, view, row.process, now), torch_process=torch_process
    )


def _build_unlisted_rows(
    allocators: WatchedProcesses, rows: Sequence[ProcessRow], position: int, now: float
) -> list[ProcessRow]:
    """Return rows of torch processes that NVML does not list, for example in a container."""
    unlisted = []
    shown = {row.torch_process.pid for row in rows if row.torch_process}
    for allocator in allocators.allocators():
        process, placed = allocator.process, allocator.placed
        if allocator.ended or process.ours or process.pid in shown:
            continue
        item = GpuProcess(
            pid=process.pid,
            user=process.user,
            command=process.command,
            memory=None,
            kind="",
            started_at=process.start,
            parent=process.launched_by,
            unavailable={**_owner_reasons(process), "memory": placed.why_no_process},
        )
        row = build_row(item, text.NA, position, None)
        key = f"{allocator.figures.device} {row.key}"
        unlisted.append(
            replace(row, key=key, torch=unplaced(allocator, now), torch_process=process)
        )
    return unlisted


def _owner_reasons(process: TorchProcess) -> dict[str, str]:
    names = ("user", "command")
    return {name: process.unavailable[name] for name in names if name in process.unavailable}


def is_unattributed(rest: int, memory: DeviceMemory) -> bool:
    """Return whether so many used bytes of no listed process are worth showing."""
    if memory.driver_reserved is None:
        return rest > UNKNOWN_DRIVER_SHARE * (memory.total or 0)
    return rest > LEAST_UNATTRIBUTED


def _build_unattributed_rows(gpu: str, position: int, device: Device) -> list[ProcessRow]:
    used = device.memory.used
    rest = (used or 0) - sum(row.memory or 0 for row in device.processes or ())
    if used is None or not is_unattributed(rest, device.memory):
        return []
    # The account below the list explains the word.
    key = f"{gpu} unattributed"
    return [ProcessRow(key, gpu, None, None, "unattributed", memory=rest, position=position)]


def _matches(row: ProcessRow, words: Sequence[str]) -> bool:
    item = row.process
    parent = item.parent.command if item and item.parent else ""
    searched = f"{row.gpu} {row.pid or ''} {row.user or ''} {row.command} {parent or ''}".lower()
    if item and item.command:
        searched += item.command.lower()
    return all(word in searched for word in words)


# ---- the tree ----------------------------------------------------------------------------------

_Sort = Callable[[list[ProcessRow]], list[ProcessRow]]
_ProcessId = tuple[float, int]
"""The start of a process as Unix time, and its PID."""


def _build_tree(rows: list[ProcessRow], order: Order, before: Sequence[str]) -> list[ProcessRow]:
    """Put each process below its parent; a launcher of several processes gets its own row."""
    top, below, launched = _group_by_parent(rows)
    for launch in launched:
        if len({row.pid for row in launch}) == 1:
            top += launch
        else:
            launcher = _build_launcher_row(launch)
            top.append(launcher)
            below[launcher.key] = launch
    in_order = _make_sorter(order, before, below)
    tree: list[ProcessRow] = []

    def add_rows(siblings: list[ProcessRow], branches: tuple[bool, ...]) -> None:
        for number, row in enumerate(in_order(siblings), 1):
            own = (*branches, number < len(siblings))
            tree.append(replace(row, branches=own))
            add_rows(below.get(row.key, []), own)

    for row in in_order(top):
        tree.append(row)
        add_rows(below.get(row.key, []), ())
    return tree


def _group_by_parent(
    rows: list[ProcessRow],
) -> tuple[list[ProcessRow], dict[str, list[ProcessRow]], list[list[ProcessRow]]]:
    """Return the rows without a parent, the children by their parent's key, and by launcher."""
    first: dict[_ProcessId, ProcessRow] = {}
    for row in rows:
        if row.pid is not None and row.started_at is not None:
            first.setdefault((row.started_at, row.pid), row)
    top: list[ProcessRow] = []
    below: dict[str, list[ProcessRow]] = {}
    launched: dict[_ProcessId, list[ProcessRow]] = {}
    for row in rows:
        parent = row.process.parent if row.process else None
        if parent is None:
            top.append(row)
            continue
        identity = (parent.started_at, parent.pid)
        # A parent starts before its child, so no row can end up below itself.
        if identity in first and identity < (row.started_at or 0.0, row.pid or 0):
            below.setdefault(first[identity].key, []).append(row)
        else:
            launched.setdefault(identity, []).append(row)
    return top, below, list(launched.values())


def _build_launcher_row(ranks: list[ProcessRow]) -> ProcessRow:
    """Return the row of a launcher with the sums of its processes, each counted once."""
    parent = _require_parent(ranks[0])
    once = list({row.pid: row for row in ranks}.values())
    gpus = {row.gpu for row in ranks}
    return ProcessRow(
        key=f"launcher {parent.pid} {parent.started_at}",
        gpu=next(iter(gpus)) if len(gpus) == 1 else text.count(len(gpus), "GPU"),
        pid=parent.pid,
        user=parent.user,
        command=f"{parent.command or text.NA}",
        memory=_sum(row.memory for row in ranks),
        torch=_sum_torch(parent, ranks),
        cpu_percent=_sum(row.cpu_percent for row in once),
        host_memory=_sum(row.host_memory for row in once),
        started_at=parent.started_at,
        kind="launcher",
        position=min(row.position for row in ranks),
    )


def _sum_torch(parent: ParentProcess, ranks: Sequence[ProcessRow]) -> ProcessMemory | None:
    """Return the sum of several processes' allocators."""
    read = [row.torch for row in ranks if row.torch and row.torch.key is not None]
    if not read:
        return None

    def total(name: str) -> Reading[int]:
        parts: list[Reading[int]] = [getattr(row, name) for row in read]
        return derive(lambda *sizes: sum(sizes), *parts)

    no_peak = Absent("the peaks of several processes are of different moments", "")
    return ProcessMemory(
        parent.pid,
        parent.command,
        None,
        total("process"),
        total("allocated"),
        total("cached"),
        total("context"),
        no_peak,
        total("retries"),
        total("ooms"),
    )


def _require_parent(row: ProcessRow) -> ParentProcess:
    if row.process is None or row.process.parent is None:
        raise ValueError(f"{row.key} has no parent")
    return row.process.parent


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# ---- the order ---------------------------------------------------------------------------------


def _make_sorter(
    order: Order, before: Sequence[str], below: Mapping[str, list[ProcessRow]]
) -> _Sort:
    """Return a function that sorts siblings.

    Args:
        order: the sort order.
        before: the keys in the displayed order.
        below: the rows below each, by key; their figures count for the row above them.
    """

    def in_order(rows: list[ProcessRow]) -> list[ProcessRow]:
        rows = sorted(rows, key=lambda row: (row.pid or 0, row.position))
        if order in MARGINS:
            figures = {row.key: total_sort_value(row, order, below) for row in rows}
            margin = MARGINS[order] if before else 0.0
            by_key = {row.key: row for row in rows}
            return [
                by_key[key]
                for key in sort_with_hysteresis(before if margin else (), figures, margin)
            ]
        return sorted(rows, key=lambda row: _sort_key(row, order))

    return in_order


def total_sort_value(
    row: ProcessRow, order: Order, below: Mapping[str, Sequence[ProcessRow]]
) -> float | None:
    """Return the sort figure of a row and of all rows below it: their sum, or the highest peak.

    Args:
        row: a launcher's row has the sums of the rows below it already.
        order: the sort order.
        below: the rows below each, by key.
    """
    own = read_sort_value(row, order)
    parts = [total_sort_value(child, order, below) for child in below.get(row.key, ())]
    if row.kind == "launcher" and own is not None:
        parts = []
    known = [value for value in (own, *parts) if value is not None]
    if not known:
        return None
    return max(known) if order == "peak" else sum(known)


def read_sort_value(row: ProcessRow, order: Order) -> float | None:
    """Return a row's sort figure, or ``None`` if the order sorts by no figure."""
    values = {
        "memory": row.memory,
        "allocated": get_value(row.torch.allocated) if row.torch else None,
        "cached": get_value(row.torch.cached) if row.torch else None,
        "peak": get_value(row.torch.peak) if row.torch else None,
        "sm": row.sm_percent,
        "cpu": row.cpu_percent,
        "host": row.host_memory,
    }
    return values.get(order)


def _sort_key(row: ProcessRow, order: Order) -> tuple[bool, str | float, int]:
    """Return a row's sort key: unknown values last, equal values by device."""
    if order == "user":
        return row.user is None, row.user or "", row.position
    if order == "age":
        return row.started_at is None, row.started_at or 0.0, row.position
    if order == "gpu":
        return False, float(row.position), row.position
    return row.pid is None, float(row.pid or 0), row.position
