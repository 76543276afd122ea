"""The rows of the devices pane as lines, which show how near figures are to their limits. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tui.core.events import MonitorStatus
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import name_program
from tui.devices.memory.figures import compute_device_age
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import Order, stale_after
from tui.devices.state.machine import MachineState
from tui.devices.views.device_columns import (
    BRIEF_STATUS,
    MARK,
    MEMORY,
    POWER_OF,
    UTILISATION,
    DeviceColumns,
    find_shared_name,
    measure_row,
    shorten_cpu_model,
    shorten_name,
)
from tui.kit.bars import draw_gauge
from tui.kit.lines import TITLE_GAP, Line, Span, TextStyle, fit, left, right, wrap
from tui.kit.lines import width as measure
from tui.monitor.messages import HARMFUL_REASONS, Device, Sample

WARM_C, HOT_C = 10.0, 2.0
"""Degrees Celsius below the slowdown threshold at which a device counts as warm, and as hot."""
AT_CAP = 0.97
"""Share of the power limit at which a device counts as capped: the driver stays just below it."""
FULL = 0.95
"""Share of the memory in use at which it counts as full."""


class LimitLevel(enum.Enum):
    """How near a figure is to its limit: a color and a sign before the figure both show it.

    Utilization has no limit: 100% is no problem.
    """

    USUAL = "usual"
    NEAR = "near its limit"
    AT = "at its limit"
    FAULT = "fault"


LEVEL_STYLES = {
    LimitLevel.USUAL: TextStyle.PLAIN,
    LimitLevel.NEAR: TextStyle.NOTE,
    LimitLevel.AT: TextStyle.BAD,
    LimitLevel.FAULT: TextStyle.BAD,
}


def rank_heat(device: Device | None) -> LimitLevel:
    """Rank the temperature by the device's slowdown threshold; a slowdown is a fault."""
    if device is None:
        return LimitLevel.USUAL
    if set(device.throttle or ()) & set(HARMFUL_REASONS):
        return LimitLevel.FAULT
    celsius, slowdown = device.temperature_c, device.slowdown_c
    if celsius is None or slowdown is None or celsius < slowdown - WARM_C:
        return LimitLevel.USUAL
    return LimitLevel.AT if celsius >= slowdown - HOT_C else LimitLevel.NEAR


def rank_power(device: Device | None) -> LimitLevel:
    """Rank the power by its limit, where it is normal; a brake by the power supply is a fault."""
    reasons = device.throttle or () if device else ()
    if device is None or "hw_power_brake_slowdown" in reasons:
        return LimitLevel.FAULT if device else LimitLevel.USUAL
    drawn_w, limit_w = device.power_w, device.power_limit_w
    capped = drawn_w is not None and bool(limit_w) and drawn_w >= AT_CAP * (limit_w or 0)
    return LimitLevel.NEAR if capped or "sw_power_cap" in reasons else LimitLevel.USUAL


def rank_memory(share: float | None) -> LimitLevel:
    """Rank the share of the memory in use, 0 to 1; ``None`` if unknown."""
    return LimitLevel.NEAR if share is not None and share >= FULL else LimitLevel.USUAL


def draw_figure(figure: str, cells: int, level: LimitLevel, *, quiet: bool) -> Span:
    """Return a figure at the right of its column, with its sign directly before it.

    Args:
        figure: the figure with its unit.
        cells: width of the column without the gap of one cell before it, which may have the sign.
        level: nearness to the limit.
        quiet: the figure is old; its sign stays.
    """
    style = TextStyle.QUIET if quiet else LEVEL_STYLES[level]
    sign = glyphs.GLYPHS.warning if level is LimitLevel.FAULT else glyphs.GLYPHS.limit
    return Span(right(figure if level is LimitLevel.USUAL else sign + figure, cells + 1), style)


LOST_ROOM = 24
"""The fewest cells for the reason of a loss; with less room, the figures are left out."""
_MOST_SERIOUS_FIRST = (*HARMFUL_REASONS, "reliability", "board_limit", "sw_power_cap")
POWER_CAP = "at power cap"
WAITING = "waiting for the monitor"
WHOLE_NOTICE = " (v, enter: more)"


def notice(sample: Sample | None, monitor: MonitorStatus, now: float) -> str:
    """Return one line on a problem of the monitor itself, or an empty string without one."""
    if monitor.status in ("ended", "unusable", "restarting"):
        state = "is restarting" if monitor.status == "restarting" else "has ended"
        return f"the monitor {state}" + (f": {monitor.reason}" if monitor.reason else "")
    if sample is None:
        return WAITING
    if now - sample.at > stale_after(sample):
        return f"the monitor has sent nothing for {text.old(now - sample.at)}"
    if sample.driver.error:
        return sample.driver.error
    if sample.nvml_silent_s is not None:
        return f"NVML has not answered for {text.old(sample.nvml_silent_s)}"
    if sample.problems:
        return f"monitor: {sample.problems[0]}"
    if not sample.devices:
        return "the driver lists no GPU"
    return ""


def notice_lines(
    sample: Sample | None, monitor: MonitorStatus, now: float, width: int, rows: int
) -> list[Line]:
    """Return the lines of the notice, cut at the end of the last row, or none without a notice.

    A machine without a driver is no failure: one line says so, and the page of the CPU what to do.

    Args:
        sample: the newest sample.
        monitor: the monitor's status.
        now: Unix time.
        width: cells of a row.
        rows: the most rows that the notice may take, at least one.
    """
    error = sample.driver.error if sample else None
    message = notice(sample, monitor, now)
    if not message:
        return []
    if message == WAITING:
        return [(Span(fit(message, width), TextStyle.QUIET),)]
    if sample and sample.driver.missing and message == error:
        brief = f"{glyphs.GLYPHS.warning} {_shorten_error(message)}{WHOLE_NOTICE}"
        return [(Span(fit(brief, width), TextStyle.NOTE),)]
    words = f"{glyphs.GLYPHS.warning} {message}"
    lines = wrap(words, width, indent="  ")
    if len(lines) > rows == 1 and message == error:
        clauses = (message.partition("; ")[0], _shorten_error(message))
        short = [f"{glyphs.GLYPHS.warning} {clause}{WHOLE_NOTICE}" for clause in clauses]
        lines = [next((form for form in short if len(form) <= width), short[-1])]
    if len(lines) > rows:
        start = "  " if rows > 1 else ""
        rest = start + " ".join(row.strip() for row in lines[rows - 1 :])
        lines = [*lines[: rows - 1], fit(rest, width)]
    return [(Span(row, TextStyle.BAD),) for row in lines]


def _shorten_error(error: str) -> str:
    """Return what failed, without why and without what to do."""
    return error.partition(": ")[0]


def devices_title(
    machine: MachineState, now: float, width: int, *, folded: bool, order: Order = "index"
) -> str:
    """Return the number and the kind of the GPUs; for a folded pane, the most important figures.

    Args:
        machine: the state of the machine.
        now: Unix time.
        width: cells of the title.
        folded: the rows are not on the screen.
        order: the sort order of the rows.
    """
    gpus = [view for view in machine.devices if view.key != CPU]
    name = find_shared_name(machine.devices) or ""
    count = [text.count(len(gpus), "GPU")] if len(gpus) > 1 else []
    unseen = gpus and machine.environment and not any(view.torch for view in gpus)
    seen = ["not seen by torch"] if unseen else []
    sorted_by = [f"by {order}"] if order != "index" else []
    *longer, shortest = _format_slowdowns(machine)

    def build(parts: list[str], slowdowns: Sequence[str]) -> str:
        return TITLE_GAP.join(filter(None, ["Devices", ", ".join(parts), *slowdowns]))

    # Problems of GPUs stand at the end; the heading also marks the order.
    whole = _count_kind(len(gpus), name)
    short = _count_kind(len(gpus), fit(name, max(12, width // 3)) if name else "")
    kinds = [
        [*whole, *seen, *sorted_by],
        [*whole, *seen],
        [*short, *seen, *sorted_by],
        [*short, *seen],
        [*count, *seen],
        count,
    ]
    titles = [build(kind, words) for kind in kinds for words in longer]
    titles += [build(kind, shortest) for kind in (count, [])]
    trouble = notice(machine.sample, machine.monitor, now) if folded else ""
    figures = _summarize(machine.selected_device, machine.sample) if folded else ""
    more = f"{glyphs.GLYPHS.warning} {trouble}" if trouble else figures
    room = width - (len(TITLE_GAP + figures) if figures and not trouble else 0)
    title = next((candidate for candidate in titles if len(candidate) <= room), titles[-1])
    return fit(f"{title}{TITLE_GAP}{more}", width) if more else title


def _count_kind(gpus: int, name: str) -> list[str]:
    """Return the number of GPUs with the name of all: ``8x NVIDIA H100``, ``2 simulated GPUs``."""
    if gpus < 2:
        return [name] if name else []
    if not name:
        return [text.count(gpus, "GPU")]
    # A model has a capital or a digit in its name: ``simulated`` describes GPUs instead.
    describes = name.isalpha() and name.islower()
    return [f"{gpus} {name} GPUs" if describes else f"{gpus}x {name}"]


def _summarize(view: DeviceView, sample: Sample | None) -> str:
    """Describe a device in a few words."""
    used = _read_memory(view, sample)
    use = text.percent(_read_load(view, sample))
    return f"{view.label} {use} {_memory_text(used)}" if used else f"{view.label} {use}"


def _format_slowdowns(machine: MachineState) -> list[list[str]]:
    """Describe the GPUs with reduced clocks, the longest form first.

    Heat or a fault is told from the power cap, which is normal under load. A single GPU is named
    instead of counted.
    """
    harmed: list[tuple[str, str]] = []
    capped: list[str] = []
    for view in machine.devices:
        reasons = rank_throttle_reasons(view.nvml) if view.nvml and not view.nvml.lost else ()
        if set(reasons) & set(HARMFUL_REASONS):
            harmed.append((view.label, _IN_BRIEF.get(reasons[0], shorten_reason(reasons[0]))))
        elif "sw_power_cap" in reasons:
            capped.append(view.label)
    who = harmed[0][0] if len(harmed) == 1 else str(len(harmed))
    why = harmed[0][1] if len({reason for _, reason in harmed}) == 1 else ""
    count = f"{len(harmed)} throttled"
    heat = [
        f"{who} throttled: {why}" if why else count,
        f"{who} {why}" if why and len(harmed) == 1 else count,
        count,
    ]
    named = f"{capped[0]} at cap" if len(capped) == 1 else f"{len(capped)} at cap"
    cap = [f"{len(capped)} {POWER_CAP}", f"{len(capped)} at cap"]
    forms = [(heat[0], cap[0]), (heat[1], named), (heat[1], cap[1]), (heat[2], cap[1])]
    warning, limit = glyphs.GLYPHS.warning, glyphs.GLYPHS.limit
    return [
        [f"{warning} {slow}"] * bool(harmed) + [f"{limit} {full}"] * bool(capped)
        for slow, full in forms
    ]


def rank_throttle_reasons(device: Device) -> tuple[str, ...]:
    """Return the reasons for reduced clocks, the most serious first, without idleness."""
    reasons = [reason for reason in device.throttle or () if reason not in ("idle", "none")]
    order = {reason: rank for rank, reason in enumerate(_MOST_SERIOUS_FIRST)}
    return tuple(sorted(reasons, key=lambda reason: order.get(reason, len(order))))


def shorten_reason(reason: str) -> str:
    """Shorten a reason such as ``hw_thermal_slowdown``; ``hw_slowdown`` has its own meaning."""
    return reason if reason == "hw_slowdown" else reason.removesuffix("_slowdown")


def compute_age(view: DeviceView, sample: Sample, now: float) -> float:
    """Return the seconds since the figures of a row were read."""
    return (
        max(0.0, now - sample.at)
        if view.nvml is None
        else compute_device_age(view.nvml, sample, now)
    )


def format_status(
    view: DeviceView, sample: Sample | None, now: float, width: int, *, clocks: bool = True
) -> Span:
    """Return the problem of a device in as many words as fit; empty without a problem.

    Args:
        view: the device.
        sample: the monitor's newest.
        now: Unix time.
        width: cells of the words.
        clocks: name the reason for lower clocks, too.
    """
    device = view.nvml
    parts: list[str] = []
    style = TextStyle.NOTE
    if sample is not None and (seconds := compute_age(view, sample, now)) > stale_after(sample):
        parts.append(f"{text.old(seconds)} old")
    if device is not None and device.ecc_uncorrected:
        parts.append(text.count(device.ecc_uncorrected, "ECC error"))
        style = TextStyle.BAD
    reasons = rank_throttle_reasons(device) if clocks and device is not None else ()
    if width <= BRIEF_STATUS:
        # Its column marks a power cap.
        reasons = tuple(reason for reason in reasons if reason in HARMFUL_REASONS)
    if reasons:
        parts.append(_format_throttling(reasons, width - len(", ".join([*parts, ""]))))
        style = TextStyle.BAD if reasons[0] in HARMFUL_REASONS else style
    return Span(fit(", ".join(parts), width), style)


_IN_BRIEF = {
    "hw_thermal_slowdown": "thermal",
    "sw_thermal_slowdown": "thermal",
    "hw_power_brake_slowdown": "brake",
    "hw_slowdown": "hw slow",
}
"""For the narrowest rows, the word that distinguishes NVML's reason from others. The memory tab
shows the full reasons."""


def _format_throttling(reasons: tuple[str, ...], width: int) -> str:
    first = shorten_reason(reasons[0])
    more = f" +{len(reasons) - 1}" if len(reasons) > 1 else ""
    forms = (
        f"throttled: {', '.join(map(shorten_reason, reasons))}",
        f"throttled: {first}{more}",
        f"throttled: {first}",
        f"{glyphs.GLYPHS.warning} {first}",
        f"{glyphs.GLYPHS.warning}{_IN_BRIEF.get(reasons[0], first)}",
    )
    return next((form for form in forms if len(form) <= width), forms[-1])


NO_HISTORY: Line = ()


def device_row(
    view: DeviceView,
    sample: Sample | None,
    now: float,
    plan: DeviceColumns,
    *,
    selected: bool,
    history: Line = NO_HISTORY,
    rank: Span | None = None,
) -> Line:
    """Return one device as one row.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        plan: the columns, the same for all rows.
        selected: mark the row, whose device the other panes show.
        history: its load over the last minutes, as wide as the columns say.
        rank: the rank of a job on it; ``None`` if none is known.
    """
    mark = left(glyphs.GLYPHS.selected if selected else "", MARK)
    style = TextStyle.STRONG if selected else TextStyle.PLAIN
    device = view.nvml
    if device is not None and not device.lost and LEVEL_STYLES[rank_heat(device)] is TextStyle.BAD:
        style = TextStyle.BAD
    head = Span(mark + left(view.label, plan.label), style)
    if device is not None and device.lost:
        return (head, *_lost_row(view, device, now, plan, measure_row(plan) - head.width))
    stale = sample is not None and compute_age(view, sample, now) > stale_after(sample)
    quiet = stale or sample is None
    # A reason for lower clocks in the place of the memory bar would look like a fault of memory.
    beside = plan.status or plan.name
    state = format_status(view, sample, now, beside or plan.filled, clocks=beside > 0)
    if plan.users and not quiet and state.style is not TextStyle.BAD:
        # A power cap is normal under load: who uses the GPU matters more.
        state = format_user(view, plan.status, rank)
    name = _format_name(view, sample)
    trace = history if plan.traced else NO_HISTORY
    parts = [head, *_cells(view, sample, plan, name, state, trace, quiet=quiet)]
    if plan.history:
        blanks = plan.history - measure(history)
        parts += [Span(" "), *history, *([Span(" " * blanks)] if blanks else [])]
    return tuple(parts)


def split_row(row: Line, view: DeviceView, plan: DeviceColumns) -> tuple[Line, Line]:
    """Return the row of a device as two lines: its load with heat and power, and its memory.

    A reason for lower clocks stands below the label.

    Args:
        row: drawn by :func:`device_row` with these columns.
        view: the device.
        plan: the columns of ``deep_columns``.
    """
    if view.nvml is not None and view.nvml.lost:
        return row, ()
    head, *cells = row
    first: list[Span] = [head]
    # In the one row, the memory with its figure stands between the load and the heat.
    ends = _BAR_CELLS + plan.load, _BAR_CELLS + plan.load + 1 + plan.filled + 1 + plan.memory
    reasons = rank_throttle_reasons(view.nvml) if view.nvml else ()
    harmful = bool(reasons) and reasons[0] in HARMFUL_REASONS
    reason = _format_throttling(reasons, 0) if harmful else ""
    second: list[Span] = [Span(left(reason, head.width), TextStyle.BAD)]
    at = 0
    for span in cells:
        (second if ends[0] <= at < ends[1] else first).append(span)
        at += span.width
    return tuple(first), tuple(second)


_BAR_CELLS = 2 + UTILISATION
"""Cells around the bar of the load."""


def _cells(
    view: DeviceView,
    sample: Sample | None,
    plan: DeviceColumns,
    name: str,
    state: Span,
    trace: Line,
    *,
    quiet: bool,
) -> list[Span]:
    """Return the cells after the label.

    A status may replace the name or the memory bar, and ``trace``, the history of the load, the bar
    of the load.
    """
    device = view.nvml
    usual = TextStyle.QUIET if quiet else TextStyle.PLAIN

    def styled(style: TextStyle) -> TextStyle:
        return TextStyle.QUIET if quiet else style

    # A power cap is normal under load: its column is colored, and the title counts it.
    is_serious = bool(state.text) and not plan.status and (quiet or state.style is TextStyle.BAD)
    spans: list[Span] = []
    if plan.name:
        named = state if is_serious else Span(name, usual)
        spans.append(Span(f" {left(named.text, plan.name)}", named.style))
    load = _read_load(view, sample)
    if plan.load:
        style = styled(TextStyle.GOOD)
        share = None if load is None else load / 100
        history = [Span(span.text, styled(span.style)) for span in trace]
        spans += [Span(" ", style), *(history or draw_gauge(share, plan.load, style))]
    spans.append(Span(f" {right(text.percent(load), UTILISATION)}", usual))
    memory = _read_memory(view, sample)
    share = memory[0] / memory[1] if memory and memory[0] is not None and memory[1] else None
    level = rank_memory(share)
    if plan.filled:
        style = styled(TextStyle.ALLOCATED if level is LimitLevel.USUAL else LEVEL_STYLES[level])
        bar = draw_gauge(share, plan.filled, style)
        if is_serious and not plan.name:
            brief = state.text.replace(" min", "m")  # an age, in a narrow pane
            words = state.text if len(state.text) <= plan.filled else brief
            bar = (Span(left(words, plan.filled), state.style),)
        spans += [Span(" ", bar[0].style), *bar]
    words = _memory_text(memory)
    if plan.memory < MEMORY:
        words = words.partition("/")[0] + words[-1:] if "/" in words else words
    spans.append(draw_figure(words, plan.memory, level, quiet=quiet))
    if view.key == CPU:
        room = plan.temperature + plan.power + (plan.temperature > 0 and plan.power > 0)
        cores = _format_cores(sample) if sample and room > plan.temperature else ""
        spans.append(Span(f" {right(cores, room)}" if room else "", usual))
    else:
        spans += _heat_cells(device, plan, quiet=quiet)
    if plan.clocks:
        clocks = device.clocks_mhz if device else None
        words = _format_clocks(clocks.sm, clocks.memory) if clocks else ""
        spans.append(Span(f" {right(words, plan.clocks)}", usual))
    if plan.status:
        spans.append(Span(f" {left(state.text, plan.status)}", state.style))
    return spans


def _heat_cells(device: Device | None, plan: DeviceColumns, *, quiet: bool) -> list[Span]:
    spans: list[Span] = []
    if plan.temperature:
        celsius = text.temperature(device.temperature_c if device else None)
        spans.append(draw_figure(celsius, plan.temperature, rank_heat(device), quiet=quiet))
    if plan.power:
        watts, limit = (device.power_w, device.power_limit_w) if device else (None, None)
        words = text.power(watts, limit) if plan.power >= POWER_OF else text.watts(watts)
        words = text.NA if watts is None else words
        spans.append(draw_figure(words, plan.power, rank_power(device), quiet=quiet))
    return spans


def _lost_row(
    view: DeviceView, device: Device, now: float, plan: DeviceColumns, width: int
) -> tuple[Span, ...]:
    """Return the row of a lost device: time and reason of the loss, and its last figures."""
    figures_then: list[Span] = []
    tail = 0
    if view.before_loss is not None:
        last = DeviceView(view.key, view.before_loss)
        bare = plan._replace(name=0, status=0, clocks=0, history=0, filled=0, load=0)
        figures_then = _cells(last, None, bare, "", Span(""), NO_HISTORY, quiet=True)
        tail = sum(cells + 1 for cells in (plan.clocks, plan.status, plan.history) if cells)
    room = width - sum(span.width for span in figures_then) - tail - 1
    if room < LOST_ROOM:
        figures_then, tail, room = [], 0, width - 1
    since = f" {text.age(now - device.lost_at)}" if device.lost_at is not None else ""
    reason = Span(f" {left(f'lost{since}: {device.lost}', room)}", TextStyle.BAD)
    return (reason, *figures_then, *([Span(" " * tail)] if tail else []))


def _format_name(view: DeviceView, sample: Sample | None) -> str:
    if view.key == CPU and sample is not None and view.torch_device is None:
        return shorten_cpu_model(sample.host.cpu.model)
    return shorten_name(view)


def _format_cores(sample: Sample) -> str:
    """Return the cores that this user may use; a number beside it would look like a share of it."""
    return text.count(sample.host.cpu.cores_usable, "core")


def _read_load(view: DeviceView, sample: Sample | None) -> float | None:
    if view.key == CPU:
        return sample.host.cpu.load_percent if sample else None
    return view.nvml.utilization.gpu if view.nvml else None


def _read_memory(view: DeviceView, sample: Sample | None) -> tuple[int | None, int | None] | None:
    """Return used and total memory, or ``None`` if the device has no memory of its own."""
    if view.key == CPU:
        memory = sample.host.memory if sample else None
        return (memory.used, memory.total) if memory else (None, None)
    if view.nvml is None:
        return (None, None)
    return None if view.nvml.memory.unified else (view.nvml.memory.used, view.nvml.memory.total)


def _memory_text(memory: tuple[int | None, int | None] | None) -> str:
    if memory is None:
        return "unified"
    if memory == (None, None):
        return text.NA
    pair = text.size_pair(*memory)
    return shorten_unit(pair)


def shorten_unit(size: str) -> str:
    """Shorten the unit, as everywhere in the devices pane: ``20.7/139.8 GiB`` to ``139.8G``."""
    return size.replace(" ", "").replace("iB", "")


def _format_clocks(sm: int | None, memory: int | None) -> str:
    if sm is None and memory is None:
        return text.NA
    return f"{text.NA if sm is None else sm}/{text.NA if memory is None else memory} MHz"


def format_user(view: DeviceView, width: int, rank: Span | None) -> Span:
    """Return who uses a GPU: user and program with the most memory, and how many others.

    Args:
        view: the GPU.
        width: cells of the words.
        rank: the rank of a job on the GPU, ``None`` if none is known; where it stands out, or there
            is no room for both, it replaces the user.
    """
    rows = (view.nvml.processes if view.nvml else None) or ()
    if not rows:
        return Span("") if rank is None else Span(fit(rank.text, width), rank.style)
    first = max(rows, key=lambda row: row.memory or 0)
    words = "  ".join(filter(None, (first.user, name_program(first.command or ""))))
    more = f" +{len(rows) - 1}" if len(rows) > 1 else ""
    words = (words or f"pid {first.pid}") + more
    if rank is not None:
        both = f"{words}  {rank.text}"
        alone = rank.style is not TextStyle.QUIET or len(both) > width
        return Span(fit(rank.text if alone else both, width), rank.style)
    return Span(fit(words, width), TextStyle.QUIET)
