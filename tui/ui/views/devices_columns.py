"""Which columns of the devices pane fit, and how wide they are. Pure."""

from __future__ import annotations

import re

from tui.state.pairing import CPU, DeviceView
from tui.text import numbers as text
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
class Columns:
    """Widths in cells; zero for a column that is left out."""

    label: int
    name: int
    bar: int
    temperature: int
    power: int
    clocks: int
    status: int


def columns(views: tuple[DeviceView, ...], width: int) -> Columns:
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
    return Columns(
        label=label,
        name=name,
        bar=bar + grown,
        temperature=wanted.get("temperature", 0),
        power=wanted.get("power", 0),
        clocks=wanted.get("clocks", 0),
        status=status + wider,
    )


def cells(plan: Columns) -> tuple[int, ...]:
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
