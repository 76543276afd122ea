"""The ticks of an axis of dates: round moments of the local time zone. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from tui.kit.scale import Labels, Scale

DATE = "date"
"""Unit of an axis whose values are Unix times."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * step for step in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * step for step in (1, 2, 3, 6, 12)),
    *(_DAY * step for step in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Seconds between two ticks."""
_YEAR = 300 * _DAY
"""Seconds from which days are written with their year."""


def date_labels(scale: Scale, most: int) -> Labels:
    """Return round moments of a range of time, at equal steps; without any, its begin.

    Args:
        scale: Unix times that the platform can show as dates.
        most: largest number of moments.
    """
    span = scale.high - scale.low
    step = next((step for step in _STEPS if span / step < most), _STEPS[-1])
    while span / step >= most:
        step *= 2
    moments = (moment for moment in _moments(scale.low, scale.high, step) if moment >= scale.low)
    # An hour that the change of the clocks leaves out is the next one.
    ticks = [*dict.fromkeys(moments)]
    return Labels("", tuple((at, _format(at, step, span)) for at in ticks or (scale.low,)))


def _moments(low: float, high: float, step: int) -> Iterator[float]:
    """Yield the moments from the day of ``low`` on; local days may have 23 or 25 hours."""
    midnight = datetime.datetime.fromtimestamp(low).replace(hour=0, minute=0, second=0)
    midnight = midnight.replace(microsecond=0)
    if step >= _DAY:
        # The same days are ticks wherever the range begins.
        midnight -= datetime.timedelta(days=midnight.toordinal() % (step // _DAY))
    skipped = 0 if step >= _DAY else max(0, int((low - midnight.timestamp()) // step))
    moment = midnight + datetime.timedelta(seconds=step * skipped)
    while moment.timestamp() <= high:
        yield moment.timestamp()
        moment += datetime.timedelta(seconds=step)


def _format(at: float, step: int, span: float) -> str:
    local = datetime.datetime.fromtimestamp(at)
    if step >= _DAY or (span >= _DAY and local.time() == datetime.time()):
        return f"{local:%Y-%m-%d}" if span >= _YEAR else f"{local:%m-%d}"
    return f"{local:%H:%M}" if step >= _MINUTE else f"{local:%H:%M:%S}"
