"""The rows of the devices pane as lines. Pure."""

from __future__ import annotations

import re

from tui.memory.figures import device_age
from tui.monitor.messages import Device, Sample
from tui.monitor.throttle import HARMFUL
from tui.state.age import stale_after
from tui.state.events import MonitorStatus
from tui.state.pairing import CPU, DeviceView
from tui.state.store import Store
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit, left, plain, right, wrap
from workloads.protocol.frozen import frozen

MARK = 2
UTILISATION = 4
BAR = (4, 16)
TEMPERATURE = 5
POWER = 9
MEMORY = text.PAIR_WIDTH
CLOCKS = 13
STATUS = (22, 40)
NAME = (8, 40)
STATED = len("throttled: sw_power_cap")
DROPPED_FIRST = ("clocks", "status", "bar", "power", "temperature")
"""Left out in this order where there is no room; the memory screen has all of them. A status that
has no column of its own takes the place of the name."""

_NOISE = re.compile(
    r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@\s*[\d.]+\s*GHz", re.ASCII
)


@frozen
class DeviceColumns:
    """Widths in cells; zero for a column that is left out."""

    label: int
    name: int
    bar: int
    temperature: int
    power: int
    clocks: int
    status: int


def columns(views: tuple[DeviceView, ...], width: int) -> DeviceColumns:
    """Choose the columns that fit, giving up :data:`DROPPED_FIRST` in its order.

    Args:
        views: all devices, since the columns of all rows stand under each other.
        width: cells of a row.
    """
    label = max((len(view.label) for view in views), default=len(CPU))
    longest = max((len(short_name(view)) for view in views), default=0)
    name = max(NAME[0], min(longest, NAME[1]))
    wanted = {
        "clocks": CLOCKS,
        "status": STATUS[0],
        "bar": BAR[0],
        "power": POWER,
        "temperature": TEMPERATURE,
    }
    fixed = MARK + label + 1 + UTILISATION + 1 + MEMORY + 1

    def needed(names: int) -> int:
        return fixed + names + sum(cells + 1 for cells in wanted.values())

    for victim in DROPPED_FIRST:
        if needed(min(name, 12)) <= width:
            break
        del wanted[victim]
    room = max(0, width - needed(0))
    bar = wanted.get("bar", 0)
    if "status" not in wanted:
        # A status takes the name's place: the room for it is kept, so that nothing jumps.
        name = max(name, STATED)
    name = min(name, room)
    spare = room - name
    grown = min(BAR[1] - bar, spare) if bar else 0
    status = wanted.get("status", 0)
    wider = min(STATUS[1] - status, spare - grown) if status else 0
    return DeviceColumns(
        label=label,
        name=name,
        bar=bar + grown,
        temperature=wanted.get("temperature", 0),
        power=wanted.get("power", 0),
        clocks=wanted.get("clocks", 0),
        status=status + wider,
    )


def cells(plan: DeviceColumns) -> tuple[int, ...]:
    """The widths of a row's columns with the blank before each, from the left."""
    optional = (plan.bar, plan.temperature, plan.power, plan.clocks, plan.status)
    widths = (MARK, plan.label + 1, plan.name, UTILISATION + 1, MEMORY + 1)
    return (*widths, *(width + 1 for width in optional if width))


def short_name(view: DeviceView) -> str:
    """The name without what every device of its kind has in it."""
    return cpu_model(view.name) if view.key == CPU else view.name


def cpu_model(model: str) -> str:
    """``AMD EPYC 9654`` for ``AMD EPYC 9654 96-Core Processor``."""
    return " ".join(_NOISE.sub(" ", model).split())


WAITING = "waiting for the monitor"
_GRAVEST_FIRST = (*HARMFUL, "reliability", "board_limit", "sw_power_cap")


def notice(sample: Sample | None, monitor: MonitorStatus, now: float) -> str:
    """One line on what is wrong with looking itself; empty where nothing is."""
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
    sample: Sample | None, monitor: MonitorStatus, now: float, width: int, rows: int = 1
) -> list[Line]:
    """The notice, cut at the end of the last row; empty where there is none.

    Args:
        sample: the newest.
        monitor: how it is.
        now: Unix time.
        width: cells of a row.
        rows: that it may take, at least one.
    """
    message = notice(sample, monitor, now)
    if not message:
        return []
    if message == WAITING:
        return [(Span(fit(message, width), TextStyle.QUIET),)]
    words = f"{glyphs.GLYPHS.warning} {message}"
    found = wrap(words, width, indent="  ")
    if len(found) > rows:
        start = "  " if rows > 1 else ""
        rest = start + " ".join(row.strip() for row in found[rows - 1 :])
        found = [*found[: rows - 1], fit(rest, width)]
    return [(Span(row, TextStyle.BAD),) for row in found]


def devices_title(store: Store, now: float, width: int, *, folded: bool) -> str:
    """How many GPUs there are; of a pane folded to its title, what matters most in it.

    Args:
        store: what is known.
        now: Unix time.
        width: cells of the title.
        folded: the rows are not on the screen.
    """
    gpus = len(store.devices) - 1
    title = f"Devices   {text.count(gpus, 'GPU')}" if gpus > 1 else "Devices"
    if gpus > 0 and store.environment and not any(view.torch for view in store.devices[:-1]):
        title += ", not seen by torch"
    title += _held_back(store)
    if not folded:
        return title
    trouble = notice(store.sample, store.monitor, now)
    if trouble:
        return fit(f"{title}   {glyphs.GLYPHS.warning} {trouble}", width)
    view = store.selected_device
    plan = columns((view,), width - len(title) - 1)
    spans = row(view, store.sample, now, plan, selected=False)
    return fit(f"{title}   {' '.join(plain(spans).split())}", width)


def _held_back(store: Store) -> str:
    """How many GPUs have their clocks held back, by heat or a fault and by their power cap."""
    reasons = [throttling(view.nvml) for view in store.devices if view.nvml and not view.nvml.lost]
    harmed = sum(bool(set(found) & set(HARMFUL)) for found in reasons)
    capped = sum("sw_power_cap" in found and not set(found) & set(HARMFUL) for found in reasons)
    parts = [f"{harmed} throttled"] if harmed else []
    parts += [f"{capped} at the power cap"] if capped else []
    return "".join(f", {part}" for part in parts)


def throttling(device: Device) -> tuple[str, ...]:
    """Why the clocks are held back, the gravest first; being idle is no reason."""
    reasons = [reason for reason in device.throttle or () if reason not in ("idle", "none")]
    order = {reason: rank for rank, reason in enumerate(_GRAVEST_FIRST)}
    return tuple(sorted(reasons, key=lambda reason: order.get(reason, len(order))))


def short_reason(reason: str) -> str:
    """``hw_thermal`` for ``hw_thermal_slowdown``; ``hw_slowdown`` stays, as it means something."""
    return reason if reason == "hw_slowdown" else reason.removesuffix("_slowdown")


def age(view: DeviceView, sample: Sample, now: float) -> float:
    """Seconds since the figures of a row were read."""
    return max(0.0, now - sample.at) if view.nvml is None else device_age(view.nvml, sample, now)


def status(view: DeviceView, sample: Sample | None, now: float, width: int) -> Span:
    """What is the matter with a device, in as many words as fit; empty where nothing is."""
    device = view.nvml
    parts: list[str] = []
    style = TextStyle.NOTE
    if sample is not None and (seconds := age(view, sample, now)) > stale_after(sample):
        parts.append(f"{text.old(seconds)} old")
    if device is not None and device.ecc_uncorrected:
        parts.append(text.count(device.ecc_uncorrected, "ECC error"))
        style = TextStyle.BAD
    if device is not None and (reasons := throttling(device)):
        parts.append(_throttled(reasons, width - len(", ".join([*parts, ""]))))
        style = TextStyle.BAD if reasons[0] in HARMFUL else style
    return Span(fit(", ".join(parts), width), style)


def _throttled(reasons: tuple[str, ...], width: int) -> str:
    first = short_reason(reasons[0])
    more = f" +{len(reasons) - 1}" if len(reasons) > 1 else ""
    forms = (
        f"throttled: {', '.join(map(short_reason, reasons))}",
        f"throttled: {first}{more}",
        f"throttled: {first}",
        f"{glyphs.GLYPHS.warning} {first}",
    )
    return next((form for form in forms if len(form) <= width), forms[-1])


def lost(device: Device, now: float, width: int) -> Span:
    """What stands in the row of a device that no longer answers."""
    since = f" {text.age(now - device.lost_at)}" if device.lost_at is not None else ""
    return Span(fit(f"lost{since}: {device.lost}", width), TextStyle.BAD)


def _lost_row(
    view: DeviceView, device: Device, now: float, plan: DeviceColumns, width: int
) -> tuple[Span, ...]:
    """Since when, and the last figures where there is room to say so beside them."""
    since = f"lost {text.age(now - device.lost_at)}" if device.lost_at is not None else "lost"
    if view.before_loss is None or len(since) > plan.name:
        return (lost(device, now, width),)
    figures = _figures(DeviceView(view.key, view.before_loss), None, plan)
    reason = f" {fit(device.lost or '', plan.status)}" if plan.status else ""
    named = since if reason else fit(f"{since}: {device.lost}", plan.name)
    parts = [Span(left(named, plan.name), TextStyle.BAD)]
    parts += [Span(f" {cell}", TextStyle.QUIET) for cell in figures]
    parts.append(Span(left(reason, plan.status + 1 if plan.status else 0), TextStyle.BAD))
    return tuple(parts)


def row(
    view: DeviceView,
    sample: Sample | None,
    now: float,
    plan: DeviceColumns,
    *,
    selected: bool,
) -> Line:
    """One device as one row.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        now: Unix time.
        plan: the columns, the same for all rows.
        selected: mark it as the one that the other panes show.
    """
    mark = left(glyphs.GLYPHS.selected if selected else "", MARK)
    head = Span(
        mark + left(view.label, plan.label + 1), TextStyle.STRONG if selected else TextStyle.PLAIN
    )
    if view.nvml is not None and view.nvml.lost:
        return (head, *_lost_row(view, view.nvml, now, plan, sum(cells(plan)) - head.width))
    stale = sample is not None and age(view, sample, now) > stale_after(sample)
    style = TextStyle.QUIET if stale or sample is None else TextStyle.PLAIN
    state = status(view, sample, now, plan.status or plan.name)
    named = Span(left(_name(view, sample, plan), plan.name), style)
    # A power cap is normal under load: it has a column or stands in the detail.
    if state.text and not plan.status and (stale or state.style is TextStyle.BAD):
        named = Span(left(state.text, plan.name), state.style)
    parts: list[Span] = [head, named]
    if state.text and not plan.status and named.style is style:
        parts = [head, *_beside_name(_name(view, sample, plan), style, view, plan.name)]
    parts += [Span(f" {cell}", style) for cell in _figures(view, sample, plan)]
    if plan.status:
        parts.append(Span(f" {left(state.text, plan.status)}", state.style))
    return tuple(parts)


def _beside_name(name: str, style: TextStyle, view: DeviceView, width: int) -> tuple[Span, ...]:
    """The name, and what is the matter in as many words as fit beside it."""
    mark = glyphs.GLYPHS.warning
    reasons = throttling(view.nvml) if view.nvml else ()
    forms = [f" {mark} {short_reason(reasons[0])}", f" {mark}"] if reasons else [f" {mark}"]
    note = next((form for form in forms if len(name) + len(form) <= width), "")
    room = width - len(note)
    return (Span(left(fit(name, room), room), style), Span(note, TextStyle.NOTE))


def _name(view: DeviceView, sample: Sample | None, plan: DeviceColumns) -> str:
    name = short_name(view)
    if view.key == CPU and sample is not None:
        if view.torch_device is None:
            name = cpu_model(sample.host.cpu.model)
        if not (plan.temperature and plan.power):
            name = f"{_cores(sample)} {name}"
    elif len(name) > plan.name:
        name = name.removeprefix("NVIDIA ")
    return name


def _cores(sample: Sample) -> str:
    cpu = sample.host.cpu
    if cpu.cores_usable == cpu.cores:
        return text.count(cpu.cores, "core")
    return f"{cpu.cores_usable}/{text.count(cpu.cores, 'core')}"


def _figures(view: DeviceView, sample: Sample | None, plan: DeviceColumns) -> list[str]:
    if view.key == CPU:
        return _host_figures(sample, plan)
    device = view.nvml
    use = device.utilization.gpu if device else None
    memory = device.memory if device else None
    found = [right(text.percent(use), UTILISATION)]
    if plan.bar:
        found.append(level(use, plan.bar))
    if plan.temperature:
        celsius = device.temperature_c if device else None
        found.append(right(text.temperature(celsius), plan.temperature))
    if plan.power:
        drawn, limit = (device.power_w, device.power_limit_w) if device else (None, None)
        found.append(right(_power(drawn, limit), plan.power))
    shared = memory is not None and memory.unified
    pair = "unified" if shared else _pair(memory.used, memory.total) if memory else text.NA
    found.append(right(pair, MEMORY))
    if plan.clocks:
        clocks = device.clocks_mhz if device else None
        found.append(right(_clocks(clocks.sm, clocks.memory) if clocks else text.NA, plan.clocks))
    return found


def _host_figures(sample: Sample | None, plan: DeviceColumns) -> list[str]:
    load = sample.host.cpu.load_percent if sample else None
    memory = sample.host.memory if sample else None
    found = [right(text.percent(load), UTILISATION)]
    if plan.bar:
        found.append(level(load, plan.bar))
    if plan.temperature and plan.power:
        cores = _cores(sample) if sample else ""
        found.append(right(cores, plan.temperature + 1 + plan.power))
    elif plan.temperature:
        found.append(" " * plan.temperature)
    found.append(right(_pair(memory.used, memory.total) if memory else text.NA, MEMORY))
    if plan.clocks:
        found.append(" " * plan.clocks)
    return found


def _pair(used: int | None, total: int | None) -> str:
    return text.NA if used is None and total is None else text.size_pair(used, total)


def _power(drawn: float | None, limit: float | None) -> str:
    return text.NA if drawn is None else text.power(drawn, limit)


def _clocks(sm: int | None, memory: int | None) -> str:
    if sm is None and memory is None:
        return text.NA
    return f"{text.NA if sm is None else sm}/{text.NA if memory is None else memory} MHz"


def level(percent: float | None, width: int) -> str:
    """A bar of 0 to 100 % in parts of a cell; what is not known has no bar."""
    if percent is None:
        return " " * width
    steps = glyphs.GLYPHS.horizontal
    filled = round(max(0.0, min(percent, 100.0)) / 100 * width * len(steps))
    if percent > 0:
        filled = max(1, filled)
    whole, part = divmod(filled, len(steps))
    bar = steps[-1] * whole + (steps[part - 1] if part else "")
    return bar.ljust(width)
