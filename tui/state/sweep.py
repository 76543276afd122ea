"""Sweeps as people type them: ``n=256..8192x2``, ``n=1..9+2``, ``n=256,1024``, ``dtype=*``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping

from tui.state.parameters import Invalid, Valid, allowed, autos, parse, text_of, validate
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import ParameterInfo, Setting, WorkloadInfo

MOST_RUNS = 64
"""Settings that one sweep may have; each is run on every device."""

_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+?)(?P<sign>[x*+])(?P<step>.+)")


@frozen
class Sweep:
    """Settings of one workload's parameters that are run one after the other."""

    texts: dict[str, str]
    """The swept parameters as they were typed."""
    points: tuple[dict[str, Setting], ...]
    """All parameters of each run, checked."""
    autos: tuple[str, ...] = ()
    """Of the parameters, those whose 0 is called ``auto``."""

    def values(self, name: str) -> tuple[Setting, ...]:
        """The values of one parameter, in the order of the runs."""
        return tuple(dict.fromkeys(point[name] for point in self.points))


def read(
    info: WorkloadInfo, texts: Mapping[str, str], present: Mapping[str, Setting] | None = None
) -> Valid | Sweep | Invalid:
    """Parameters of a workload from typed text, any of which may stand for several values.

    Args:
        info: the workload.
        texts: typed values by parameter name; those not named keep their value.
        present: the values to keep; the defaults where it is ``None`` or lacks one.
    """
    known = {parameter.name: parameter for parameter in info.parameters}
    many: dict[str, tuple[Setting, ...]] = {}
    errors: dict[str, str] = {}
    for name, text in texts.items():
        if name not in known:
            continue
        try:
            found = values(known[name], text)
        except ValueError as refusal:
            errors[name] = str(refusal)
        else:
            many[name] = found
    single = {name: text for name, text in texts.items() if name not in known}
    single |= {name: text_of(found[0]) for name, found in many.items()}
    base = validate(info, single, present)
    if isinstance(base, Invalid):
        errors |= base.errors
    if errors or isinstance(base, Invalid):
        return Invalid(errors)
    swept = {name: found for name, found in many.items() if len(found) > 1}
    if not swept:
        return base
    count = math.prod(map(len, swept.values()))
    if count > MOST_RUNS:
        sizes = " x ".join(f"{len(found)} of {name}" for name, found in swept.items())
        words = f"{sizes} are {count} runs; a sweep has at most {MOST_RUNS}"
        return Invalid({next(iter(swept)): words})
    points = tuple(
        {**base.parameters, **dict(zip(swept, chosen, strict=True))}
        for chosen in itertools.product(*swept.values())
    )
    return Sweep({name: texts[name].strip() for name in swept}, points, autos(info))


def values(info: ParameterInfo, text: str) -> tuple[Setting, ...]:
    """The values that a text stands for, each once; a single one where it is no sweep.

    Raises:
        ValueError: one of them is not allowed, the range cannot be read, or a range or list has
            a single value: it is taken for a mistake, and would change the parameter for good.
    """
    try:
        return (parse(info, text),)
    except ValueError:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) == 1 and ".." not in text and text.strip() != "*":
            raise
    found: dict[Setting, None] = {}
    for part in parts:
        for value in _part(info, part):
            found[value] = None
            if len(found) > MOST_RUNS:
                shown = repr(text.strip())[1:-1]
                raise ValueError(f"{info.name}: {shown} has more than {MOST_RUNS} values")
    if len(found) == 1 and text.strip() != "*":
        raise ValueError(_one_value(info, text, *found))
    return tuple(found)


def example(info: ParameterInfo) -> str:
    """A range of the parameter that multiplies; empty where it is no number.

    It is of powers of two from far below the default to above it: a GPU overtakes the CPU where a
    call takes longer than its launch, which at the defaults it does.
    """
    if isinstance(info.default, (bool, str)) or info.choices:
        return ""
    lowest, highest = info.minimum, info.maximum
    least = max(1, lowest or 0)
    usual = info.default if info.default >= 1 else _EXAMPLE_BELOW * least
    power = 2 ** math.floor(math.log2(usual))
    low = max(least, round(power / _EXAMPLE_BELOW))
    high = max(2 * power, 8 * low)
    if highest is not None and high > highest:
        high = highest
    return f"{low}..{high}x2"


_EXAMPLE_BELOW = 64
"""How many times the default an example of a sweep begins below it."""


def several(info: ParameterInfo) -> str:
    """How several values are written."""
    found = example(info)
    return f"{found} multiplies, 1..9+2 adds, 256,1024 lists" if found else "commas between them"


def _one_value(info: ParameterInfo, text: str, value: Setting) -> str:
    how = several(info)
    if info.choices or isinstance(info.default, bool):
        how = f"{','.join(map(text_of, info.choices or (True, False)))} lists, * is every choice"
    shown = repr(text.strip())[1:-1]
    one = text_of(value, auto=info.auto)
    return f"{info.name}: {shown} is one value, {one}; write {one} for it, or several: {how}"


def _part(info: ParameterInfo, part: str) -> Iterator[Setting]:
    if part == "*":
        if isinstance(info.default, bool):
            yield from info.choices or (True, False)
        elif info.choices:
            yield from info.choices
        else:
            raise ValueError(f"{info.name}: * is for choices; here a range: {allowed(info)}")
    elif ".." in part and not isinstance(info.default, (str, bool)):
        for number in _range(info, part):
            yield parse(info, text_of(number))
    else:
        yield parse(info, part)


def _range(info: ParameterInfo, part: str) -> Iterator[int | float]:
    """The numbers of a range up to its end, which is among them if a step meets it."""
    shown = repr(part)[1:-1]
    ends = part.partition("..")
    example = f"{repr(ends[0].strip())[1:-1] or 1}..{re.split('[x*+]', ends[2])[0].strip() or 9}"
    how = f"write {example}x2 to multiply or {example}+1 to add; {allowed(info)}"
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"{info.name}: {shown} is no range; {how}")
    whole = isinstance(info.default, int)
    try:
        low, high = (float(match[name].replace("_", "")) for name in ("low", "high"))
        step = float(match["step"].replace("_", ""))
    except ValueError:
        raise ValueError(f"{info.name}: {shown} is no range; {how}") from None
    multiplies = match["sign"] != "+"
    if not all(map(math.isfinite, (low, high, step))) or low > high:
        raise ValueError(f"{info.name}: {shown} does not ascend; {how}")
    if (multiplies and (step <= 1 or low <= 0)) or step <= 0:
        raise ValueError(f"{info.name}: {shown} takes no step forward; {how}")
    number, count = low, 0
    while number <= high * (1 + 1e-12):
        yield round(number) if whole else number
        count += 1
        number = low * step**count if multiplies else low + step * count
