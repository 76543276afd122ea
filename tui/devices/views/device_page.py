"""The page of one device: its facts in sections, the topology and the processes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import shorten_command
from tui.devices.memory.figures import explain_no_processes
from tui.devices.state.devices import DeviceView, find_last_reading
from tui.devices.views.device_detail import DeviceSection, device_sections
from tui.devices.views.devices import WAITING
from tui.kit.lines import Line, Span, TextStyle, beside, fit, left, line, paragraph, right, wrap
from tui.monitor.messages import Device, Sample, TopologyRow

LABEL_CELLS = 20
BESIDE_FROM = 90
"""Least width in cells to show the figures in two columns."""
NEAR, FAR = ("clocks, power, heat", "PCIe"), ("memory", "video", "NVLink")
"""The sections of the two columns."""
LINK_CELLS = 5
CPU_CELLS = 16
ANCESTOR_WORDS = {
    "INT": "on one board",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe bridge",
    "NODE": "one NUMA node",
    "SYS": "across NUMA nodes",
}
"""The connection of two GPUs, by nvidia-smi's word."""


def device_page(
    view: DeviceView, sample: Sample | None, now: float, cells: int, lost: str = ""
) -> list[Line]:
    """Return the whole page.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        cells: width of a line.
        lost: why the monitor's host is not connected; empty while it is.
    """
    device = find_last_reading(view)
    detail = sample.detail if sample is not None and device is not None else None
    if detail is not None and device is not None and detail.id != device.id:
        detail = None
    parts = device_sections(view, sample, now, lost)
    sections = {part.title: part for part in parts if part.facts}
    lines = _lines_of(sections, ("state", "host"), cells)
    lines += _columns(sections, cells)
    if detail is not None and detail.topology:
        lines += [*topology_lines(detail.topology, detail.id, cells), ()]
    elif device is not None and not view.before_loss and detail is None:
        words = f"NVLink, topology, video and ECC: {lost or WAITING}"
        lines += [*paragraph(words, cells, TextStyle.QUIET), ()]
    if device is not None:
        lines += [*process_lines(device, cells), ()]
    return [*lines, *_lines_of(sections, ("device",), cells)][:-1]


def _lines_of(
    sections: Mapping[str, DeviceSection], titles: Sequence[str], cells: int
) -> list[Line]:
    """Return sections, each with an empty line below."""
    shown = [sections[title] for title in titles if title in sections]
    return [row for section in shown for row in (*section_lines(section, cells), ())]


def _columns(sections: Mapping[str, DeviceSection], cells: int) -> list[Line]:
    """Return the figures, in two columns if they fit."""
    if cells < BESIDE_FROM:
        return _lines_of(sections, (*NEAR, *FAR), cells)
    room = (cells - 2) // 2
    return beside(_lines_of(sections, NEAR, room), _lines_of(sections, FAR, room), room)


def section_lines(section: DeviceSection, cells: int) -> list[Line]:
    """Return a section: labels in a column, and reasons of absent facts once each."""
    lines = [section_heading(section.title, cells)]
    absent: dict[str, list[str]] = {}
    for label, value in section.facts:
        if value.startswith(f"{text.NA}: "):
            absent.setdefault(value.removeprefix(f"{text.NA}: "), []).append(label)
            continue
        first, *rest = wrap(value, max(1, cells - LABEL_CELLS))
        lines.append(line(Span(left(label, LABEL_CELLS), TextStyle.QUIET), first))
        lines += [line(" " * LABEL_CELLS + row) for row in rest]
    for reason, labels in absent.items():
        words = f"{', '.join(labels)} {text.NA}: {reason}"
        lines += paragraph(words, cells, TextStyle.QUIET)
    return lines


def section_heading(title: str, cells: int) -> Line:
    """Return a title with a rule to the end of the line."""
    rule = glyphs.GLYPHS.rule * max(0, cells - len(title) - 1)
    return line(Span(f"{title} ", TextStyle.HEADING), Span(rule, TextStyle.REST))


def topology_lines(rows: Sequence[TopologyRow], id: str, cells: int) -> list[Line]:  # noqa: A002
    """Return how all GPUs are connected, a row and a column for each.

    Args:
        rows: of the GPUs.
        id: the device of the page, whose row is marked.
        cells: width of a line.
    """
    names = [f"GPU{row.nvml_index}" for row in rows]
    head = " " * (LINK_CELLS + 2) + "".join(right(name, LINK_CELLS + 1) for name in names)
    lines = [
        section_heading("topology", cells),
        line(Span(fit(f"{head}  {left('CPUs', CPU_CELLS)}NUMA", cells), TextStyle.QUIET)),
    ]
    for name, row in zip(names, rows, strict=True):
        links = "".join(right(link or text.NA, LINK_CELLS + 1) for link in row.links)
        cpus = text.NA if row.cpus is None else format_ranges(row.cpus)
        nodes = text.NA if row.numa_nodes is None else format_ranges(row.numa_nodes)
        mark = glyphs.GLYPHS.selected if row.id == id else " "
        words = f"{mark} {left(name, LINK_CELLS)}{links}  {left(cpus, CPU_CELLS)}{nodes}"
        lines.append(
            line(Span(fit(words, cells), TextStyle.STRONG if row.id == id else TextStyle.PLAIN))
        )
    used = {link for row in rows for link in row.links}
    legend = [f"{name} {about}" for name, about in ANCESTOR_WORDS.items() if name in used]
    if any(link is not None and link.startswith("NV") for link in used):
        legend.insert(0, "NV# that many NVLinks")
    return [*lines, *paragraph("; ".join(legend), cells, TextStyle.QUIET)] if legend else lines


def format_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges, such as ``0-47,96-143``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def process_lines(device: Device, cells: int) -> list[Line]:
    """Return the processes on the device, the largest first."""
    lines = [section_heading("processes", cells)]
    if device.processes is None:
        reason = explain_no_processes(device)
        return [*lines, *paragraph(f"{text.NA}: {reason}", cells, TextStyle.QUIET)]
    if not device.processes:
        return [*lines, line(Span("none", TextStyle.QUIET))]
    for row in sorted(device.processes, key=lambda row: -(row.memory or 0)):
        busy = "" if row.sm_percent is None else f"{text.percent(row.sm_percent)} busy"
        words = (
            f"{right(str(row.pid), 8)}  {left(row.user or text.NA, 9)}"
            f"{right(text.size(row.memory), text.SIZE_WIDTH)}  {left(busy, 10)}"
            f"{shorten_command(row.command or text.NA)}"
        )
        lines.append(line(fit(words, cells)))
    return lines
