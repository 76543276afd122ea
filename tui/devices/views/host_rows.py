"""The rows of the device list: GPUs that are alike are folded into one, hosts have headings. Pure.

One machine has a row for each device, except that its idle GPUs share one where that saves rows;
over several hosts, the GPUs of each have a heading.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import (
    CPU,
    FREE_BELOW_PERCENT,
    FREE_BYTES,
    FREE_SHARE,
    DeviceView,
    is_free,
)
from tui.devices.state.history import Order, stale_after
from tui.devices.state.hosts import HERE, HostState
from tui.devices.state.machine import MachineState
from tui.devices.state.same_machine import (
    Overlap,
    SeenHost,
    count_hosts,
    distinct_devices,
    find_overlaps,
)
from tui.devices.views.device_columns import shorten_name
from tui.devices.views.devices import notice, rank_throttle_reasons, shorten_unit
from tui.kit.lines import Line, Span, TextStyle, fit
from tui.monitor.messages import Device

ALIKE_PERCENT = 10.0
"""Percentage points of used memory within which GPUs of one model are alike."""
IDLE_PERCENT = 5.0
"""Percent of a GPU's memory in use up to which a free one can be idle.

The driver itself uses some, and a container does not see the programs outside it.
"""
LEAST_HIDDEN = 4
"""The fewest idle GPUs of one machine that share a row."""


class HostGroup(NamedTuple):
    """One host with its GPUs, or this machine."""

    name: str
    key: str
    """Key of the heading, which stands for the host's CPU."""
    machine: MachineState
    host: HostState | None
    """``None`` for this machine."""
    gpus: tuple[tuple[str, DeviceView], ...]
    """Keys of their rows, and the GPUs."""


class HostRow(NamedTuple):
    """One row of the list."""

    kind: Literal["heading", "device", "more", "fold"]
    key: str
    group: HostGroup
    view: DeviceView | None = None
    """Of a device."""
    folded: bool = False
    """Of a heading: its devices have no rows."""
    hidden: int = 0
    """Number of devices that this row unfolds or folds; 0 for other rows."""
    like: str = ""
    """The name of the device that they are like; empty if they are of several kinds."""


def host_groups(machine: MachineState) -> tuple[HostGroup, ...]:
    """Return this machine, if it is shown, and the other hosts in order."""
    groups = []
    if machine.hosts.here:
        gpus = tuple((view.key, view) for view in machine.devices if view.key != CPU)
        groups.append(HostGroup(HERE, CPU, machine, None, gpus))
    for host in machine.hosts.all:
        named = tuple((view.label, view) for view in host.gpus)
        groups.append(HostGroup(host.name, host.key, host.machine, host, named))
    return tuple(groups)


def host_views(groups: Sequence[HostGroup]) -> tuple[DeviceView, ...]:
    """Return the GPUs of all hosts."""
    return tuple(view for group in groups for _, view in group.gpus)


def host_rows(
    groups: Sequence[HostGroup], folds: Mapping[str, bool], room: int, selected: str
) -> tuple[HostRow, ...]:
    """Return the rows of the list.

    Where there is no room for all, GPUs that are alike are folded into one row. The selected GPU
    and GPUs in trouble keep their rows.

    Args:
        groups: the hosts.
        folds: by name, whether the user has folded or unfolded a host.
        room: rows of the list.
        selected: key of the selected row.
    """
    for show in (_show_all, _show_distinct, _show_troubled):
        rows = _list_rows(groups, folds, selected, show)
        if len(rows) <= room:
            break
    return rows


def machine_rows(
    machine: MachineState, order: Sequence[str], *, unfolded: bool, room: int = 0
) -> tuple[HostRow, ...]:
    """Return the rows of one machine's devices.

    Where there is no room for all, idle GPUs that are alike share a row. Busy GPUs, the selected
    one and those in trouble keep their rows.

    Args:
        machine: the machine.
        order: the keys of its devices in the order of the list.
        unfolded: the user wants to see all of them; a last row folds them again.
        room: rows that the list can have.
    """
    views = {view.key: view for view in machine.devices}
    gpus = tuple((key, views[key]) for key in order if key != CPU)
    group = HostGroup(HERE, CPU, machine, None, gpus)
    idle = tuple((key, view) for key, view in gpus if view.nvml and _is_idle(view.nvml))
    shown, like = _show_distinct(group._replace(gpus=idle), machine.selected)
    folded = [key for key, _ in idle if key not in shown]
    if len(folded) < LEAST_HIDDEN or len(order) <= room:
        folded = []
    rows: list[HostRow] = []
    for key in order:
        if unfolded or key not in folded:
            rows.append(HostRow("device", key, group, views[key]))
        elif key == folded[0]:
            rows.append(HostRow("more", MORE, group, hidden=len(folded), like=like))
    if unfolded and folded:
        rows.append(HostRow("fold", MORE, group, hidden=len(folded), like=like))
    return tuple(rows)


_Show = Callable[[HostGroup, str], tuple[list[str], str]]
"""Returns the keys of the GPUs to show, and the name of the one that all others are like."""


def _list_rows(
    groups: Sequence[HostGroup], folds: Mapping[str, bool], selected: str, show: _Show
) -> tuple[HostRow, ...]:
    rows: list[HostRow] = []
    for group in groups:
        folded = _is_folded(group, folds)
        rows.append(HostRow("heading", group.key, group, folded=folded))
        if folded:
            continue
        # A host that the user unfolded shows all devices.
        shown, like = (_show_all if group.name in folds else show)(group, selected)
        rows += [HostRow("device", key, group, view) for key, view in group.gpus if key in shown]
        hidden = len(group.gpus) - len(shown)
        if hidden:
            key = f"{group.key}{MORE}"
            rows.append(HostRow("more", key, group, hidden=hidden, like=like))
    return tuple(rows)


MORE = "+"
"""Ends the key of the row for a host's further devices."""


def _is_folded(group: HostGroup, folds: Mapping[str, bool]) -> bool:
    lost = group.host is not None and group.host.lost is not None
    return lost or not group.gpus or folds.get(group.name, False)


def _show_all(group: HostGroup, _selected: str) -> tuple[list[str], str]:
    return [key for key, _ in group.gpus], ""


def _show_distinct(group: HostGroup, selected: str) -> tuple[list[str], str]:
    """Show one GPU of each kind, the selected one, and those in trouble."""
    first: list[DeviceView] = []
    followed: set[str] = set()
    shown = []
    for key, view in group.gpus:
        device = view.nvml
        if key == selected or device is None or _is_in_trouble(device):
            shown.append(key)
            continue
        alike = next((other for other in first if _are_alike(other.nvml, device)), None)
        if alike is None:
            first.append(view)
            shown.append(key)
        else:
            followed.add(alike.label)
    if len(group.gpus) - len(shown) == 1:
        return _show_all(group, selected)  # its own row takes no more room
    return shown, followed.pop() if len(followed) == 1 else ""


def _show_troubled(group: HostGroup, selected: str) -> tuple[list[str], str]:
    """Show the selected GPU and those in trouble."""
    shown = [
        key
        for key, view in group.gpus
        if key == selected or view.nvml is None or _is_in_trouble(view.nvml)
    ]
    return (shown, "") if len(group.gpus) - len(shown) > 1 else _show_all(group, selected)


def _is_idle(device: Device) -> bool:
    """Return whether no program is seen to use a GPU; unknown figures or programs mean no."""
    share = _share(device)
    if device.processes is None or device.processes:
        return False
    return is_free(device) and share is not None and share <= IDLE_PERCENT


def _is_in_trouble(device: Device) -> bool:
    reasons = [reason for reason in rank_throttle_reasons(device) if reason != "sw_power_cap"]
    return device.lost is not None or bool(device.ecc_uncorrected) or bool(reasons)


def _are_alike(first: Device | None, other: Device) -> bool:
    if first is None or first.name != other.name:
        return False
    if is_free(first) != is_free(other):
        return False
    a, b = _share(first), _share(other)
    if a is None or b is None:
        return a is b
    return abs(a - b) <= ALIKE_PERCENT


def _share(device: Device) -> float | None:
    used, total = device.memory.used, device.memory.total
    return 100 * used / total if used is not None and total else None


# ---- lines ---------------------------------------------------------------------------------------


def heading_row(
    row: HostRow, now: float, cells: int, differing: Collection[str], overlap: Overlap | None
) -> Line:
    """Return the line of a host: its GPUs, driver, round-trip time and runs, or why it has none.

    Args:
        row: of the host.
        now: Unix time of this machine.
        cells: of the line.
        differing: driver versions that differ from most hosts'.
        overlap: what the host has in common with an earlier one; ``None`` if nothing.
    """
    group, host = row.group, row.group.host
    sample = group.machine.sample
    mark = glyphs.GLYPHS.folded if row.folded else glyphs.GLYPHS.unfolded
    head = Span(f"{mark} {group.name}", TextStyle.STRONG)
    if host is not None and host.lost is not None:
        words = f"   unreachable for {text.old(now - host.lost_since)}: {host.lost.reason}"
        return (head, Span(fit(words, cells - head.width), TextStyle.BAD))
    if sample is None:
        waiting = "connecting" if host is not None else "waiting for the monitor"
        return (head, Span(fit(f"   {waiting}", cells - head.width), TextStyle.QUIET))
    parts = [_format_models(group)]
    if overlap is not None:
        parts.append(overlap.describe())
    version = sample.driver.version
    differs = " !=" if glyphs.GLYPHS.ascii else " \u2260"
    if version:
        parts.append(f"driver {version}{differs if version in differing else ''}")
    if host is not None and host.round_trip_s is not None:
        parts.append(f"{1000 * host.round_trip_s:.0f} ms")
    if host is not None and host.activity:
        parts.append(host.activity)
    age = group.machine.now(now) - sample.at
    problem = notice(sample, group.machine.monitor, group.machine.now(now)) if group.gpus else ""
    if host is not None and age > stale_after(sample):
        problem = f"silent for {text.old(age)}"
    elif not group.gpus:
        problem = sample.driver.error or ""
    memory = sample.host.memory
    load = text.percent(sample.host.cpu.load_percent)
    about = f"cpu {load}  {shorten_unit(text.size_pair(memory.used, memory.total))}"
    taken = len(f"   {glyphs.GLYPHS.warning} {problem}") if problem else 0
    left_part = _join_facts(parts, cells - head.width, taken)
    rest = cells - head.width - len(left_part)
    if problem:
        end = Span(fit(f"   {glyphs.GLYPHS.warning} {problem}", rest), TextStyle.BAD)
    else:
        end = Span(f"   {about}" if len(about) + 3 <= rest else "", TextStyle.QUIET)
    return (head, Span(left_part), end)


def _join_facts(facts: Sequence[str], cells: int, taken: int) -> str:
    """Return the facts of a host that fit before its problem, which matters more than the last.

    Args:
        facts: at least one, the most important first.
        cells: of the facts and the problem.
        taken: cells of the problem.
    """
    shown = list(facts)
    while len(shown) > 1 and taken and len("   " + "   ".join(shown)) > cells - taken:
        shown.pop()
    return fit("   " + "   ".join(shown), cells)


def more_row(row: HostRow, cells: int) -> Line:
    """Return the line that unfolds devices, or folds them again."""
    like = f" like {row.like}" if row.like else ""
    words = f"  {glyphs.GLYPHS.ellipsis} {row.hidden} more{like}"
    advice = "enter here unfolds"
    if row.kind == "fold":
        words, advice = f"  {row.hidden} alike", "enter here folds"
    room = cells - len(words) - len(advice) - 1
    return (Span(fit(words + " " * room + advice if room > 1 else words, cells), TextStyle.QUIET),)


def find_differing_drivers(groups: Sequence[HostGroup]) -> frozenset[str]:
    """Return the driver versions that differ from the most frequent one, the first of equals."""
    versions = [
        group.machine.sample.driver.version
        for group in groups
        if group.machine.sample is not None and group.machine.sample.driver.version
    ]
    usual = max(versions, key=versions.count, default=None)
    return frozenset(version for version in versions if version and version != usual)


def find_group_overlaps(groups: Sequence[HostGroup]) -> Mapping[str, Overlap]:
    """Return, by the names of hosts, what each has in common with an earlier one."""
    return find_overlaps(_see_hosts(groups))


def _see_hosts(groups: Sequence[HostGroup]) -> list[SeenHost]:
    return [SeenHost.of_sample(group.name, group.machine.sample) for group in groups]


def _format_models(group: HostGroup) -> str:
    names = [shorten_name(view) for _, view in group.gpus if view.nvml and not view.nvml.parent]
    counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    return ", ".join(counts) or "no GPU"


def _reachable(machine: MachineState, now: float) -> list[Device]:
    """Return the usable devices of the hosts whose figures are not old, each once."""
    samples = [
        (group.name, group.machine.nvml_devices)
        for group in host_groups(machine)
        if group.machine.sample is not None
        and (group.host is None or group.host.lost is None)
        and group.machine.now(now) - group.machine.sample.at <= stale_after(group.machine.sample)
    ]
    return [device for _, device in distinct_devices(samples)]


def hosts_title(
    machine: MachineState, now: float, width: int, order: Order = "index", *, folded: bool = False
) -> str:
    """Return the title of the pane: how many GPUs of all hosts are free, and how they are sorted.

    GPUs of hosts that are not connected, or whose figures are old, do not count; one that several
    hosts have counts once. Without any GPU the title says nothing of them: a host that has not
    answered may have some. Where no row is on the screen, it says that the selected host is lost.

    Args:
        machine: the state of this machine, with its hosts.
        now: Unix time.
        width: cells of the title.
        order: the sort order of the rows.
        folded: the rows are not on the screen.
    """
    selected = machine.hosts.selected_host
    if folded and selected is not None and selected.lost is not None:
        return fit(f"Devices   {selected.name} {selected.machine.lost}", width)
    devices = _reachable(machine, now)
    if not devices:
        return "Devices"
    free = sum(map(is_free, devices))
    least = text.size_short(FREE_BYTES).replace(".0", "")
    criteria = f"{least} or {FREE_SHARE:.0%}, < {FREE_BELOW_PERCENT:g}%"
    at_least = ">=" if glyphs.GLYPHS.ascii else "\u2265"
    title = f"{free} of {text.count(len(devices), 'GPU')} free"
    by = "" if order == "index" else f", by {order}"
    long = f"Devices{by}   {title} ({at_least} {criteria})"
    return long if len(long) <= width else fit(f"Devices{by}   {title}", width)


def format_host_count(machine: MachineState) -> str:
    """Return the number of machines and of their known GPUs for the header, each once.

    Before a host has answered, nothing is known of GPUs.
    """
    groups = host_groups(machine)
    if all(group.machine.sample is None for group in groups):
        return text.count(len(groups), "host")
    # As in the title of the list, MIG instances count, and their GPU does not.
    gpus = sum(
        1 for _ in distinct_devices((group.name, group.machine.nvml_devices) for group in groups)
    )
    gpus += sum(view.nvml is None for view in host_views(groups))
    hosts = count_hosts(_see_hosts(groups))
    return f"{text.count(hosts, 'host')}, {text.count(gpus, 'GPU')}"
