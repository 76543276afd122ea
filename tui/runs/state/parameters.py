"""Parameters and sweeps as users type them: text becomes checked values or an error.

A sweep: ``n=256..8192x2``, ``n=1..9+2``, ``n=256,1024``, ``dtype=*``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from workloads.protocol.results import ParameterInfo, Setting, WorkloadInfo


@dataclass(frozen=True, slots=True)
class Valid:
    """All parameters of the workload, complete and checked."""

    parameters: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class Invalid:
    """Invalid parameters by name, each with a line that lists the allowed values."""

    errors: dict[str, str]


def get_defaults(info: WorkloadInfo) -> dict[str, Setting]:
    """Return the catalogue's parameters of the workload."""
    return {parameter.name: parameter.default for parameter in info.parameters}


def find_changed(info: WorkloadInfo, present: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the parameters that differ from their defaults."""
    usual = get_defaults(info)
    return {name: value for name, value in present.items() if value != usual.get(name)}


AUTO = "auto"
"""The name of 0 where it leaves the number to the workload."""


def find_autos(info: WorkloadInfo) -> tuple[str, ...]:
    """Return the parameters whose 0 is named :data:`AUTO`."""
    return tuple(parameter.name for parameter in info.parameters if parameter.auto)


def format_value(value: Setting, *, auto: bool = False) -> str:
    """Format a value for display and input: ``true``, ``false`` for switches, ``auto`` for 0.

    Args:
        value: the value of a parameter.
        auto: 0 leaves the number to the workload (``ParameterInfo.auto``).
    """
    if auto and value == 0 and not isinstance(value, (bool, str)):
        return AUTO
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe_allowed(info: ParameterInfo) -> str:
    """Return the allowed values in words: ``whole number, 16 to 65536``."""
    if info.choices:
        return ", ".join(format_value(choice) for choice in info.choices)
    if isinstance(info.default, bool):
        return "true, false"
    if isinstance(info.default, str):
        return info.form_about
    kind = "whole number" if isinstance(info.default, int) else "number"
    kind = f"{AUTO}, or a {kind}" if info.auto else kind
    if info.minimum is not None and info.maximum is not None:
        return f"{kind}, {info.minimum} to {info.maximum}"
    if info.minimum is not None:
        return f"{kind}, {info.minimum} or more"
    if info.maximum is not None:
        return f"{kind}, {info.maximum} or less"
    return kind


def parse_value(info: ParameterInfo, text: str) -> Setting:
    """Return the value that the text stands for.

    Raises:
        ValueError: the value is not allowed; the message lists the allowed ones.
    """
    typed = text.strip()
    if isinstance(info.default, bool):
        typed = typed.lower()
    try:
        return _parse_typed(info, typed)
    except ValueError:
        shown = _escape(typed) or "nothing"
        raise ValueError(f"{info.name}: {shown} is not allowed; {describe_allowed(info)}") from None


def _parse_typed(info: ParameterInfo, typed: str) -> Setting:
    if info.choices or isinstance(info.default, bool):
        choices = {format_value(item): item for item in info.choices or (True, False)}
        if typed not in choices:
            raise ValueError(typed)
        return choices[typed]
    if isinstance(info.default, str):
        if not re.fullmatch(info.form, typed):
            raise ValueError(typed)
        return typed
    if info.auto and typed.lower() == AUTO:
        return 0
    number = _parse_number(typed, whole=isinstance(info.default, int))
    if info.auto and number == 0:
        return number
    low, high = info.minimum, info.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(typed)
    return number


def _escape(typed: str) -> str:
    """Return the typed text on one line, its control characters escaped."""
    return repr(typed)[1:-1]


def _parse_number(typed: str, *, whole: bool) -> int | float:
    if not typed.isascii():
        raise ValueError(typed)
    # Accept groups of three digits as displayed: 65 536 or 65_536.
    digits = typed.replace(" ", "").replace("_", "")
    if whole:
        return int(digits)
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(typed)
    return number


def validate(
    info: WorkloadInfo, texts: Mapping[str, str], present: Mapping[str, Setting] | None = None
) -> Valid | Invalid:
    """Parse all parameters of a workload from typed text.

    Args:
        info: the workload.
        texts: typed values by parameter name; other parameters keep their value.
        present: the values to keep; a default replaces each missing one.
    """
    values: dict[str, Setting] = {}
    errors: dict[str, str] = {}
    for parameter in info.parameters:
        values[parameter.name] = (present or {}).get(parameter.name, parameter.default)
        if parameter.name in texts:
            try:
                values[parameter.name] = parse_value(parameter, texts[parameter.name])
            except ValueError as refusal:
                errors[parameter.name] = str(refusal)
    known = ", ".join(parameter.name for parameter in info.parameters)
    for name in texts:
        if name not in values:
            errors[name] = f"{info.name} has no parameter {_escape(name)}; it has {known or 'none'}"
    return Invalid(errors) if errors else Valid(values)


def format_short(parameters: Mapping[str, Setting], auto: Collection[str] = ()) -> str:
    """Format the parameters in a few cells: numbers with their names, then words alone.

    The order does not depend on that of the parameters, so that a workload has one name everywhere.

    Args:
        parameters: values by name.
        auto: the parameters whose 0 is named :data:`AUTO`.
    """
    words = sorted(value for value in parameters.values() if isinstance(value, str) and value)
    numbers = [
        f"{name}={format_value(value, auto=name in auto)}"
        for name, value in sorted(parameters.items())
        if not isinstance(value, str)
    ]
    return " ".join([*numbers, *words])


def format_changed_first(info: WorkloadInfo, present: Mapping[str, Setting]) -> str:
    """Format the parameters in short; changed ones come first, because the end may be cut off."""
    changed, autos = find_changed(info, present), find_autos(info)
    rest = {name: value for name, value in present.items() if name not in changed}
    return " ".join(filter(None, (format_short(changed, autos), format_short(rest, autos))))


MOST_RUNS = 64
"""Most settings of one sweep; each runs on every device."""

_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+?)(?P<sign>[x*+])(?P<step>.+)")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Settings of one workload's parameters that run one after the other."""

    texts: dict[str, str]
    """The swept parameters as typed."""
    points: tuple[dict[str, Setting], ...]
    """All checked parameters of each run."""
    autos: tuple[str, ...] = ()
    """The parameters whose 0 is named ``auto``."""

    def values(self, name: str) -> tuple[Setting, ...]:
        """Return the values of one parameter, in the order of the runs."""
        return tuple(dict.fromkeys(point[name] for point in self.points))


def parse_sweep(
    info: WorkloadInfo, texts: Mapping[str, str], present: Mapping[str, Setting] | None = None
) -> Valid | Sweep | Invalid:
    """Parse the parameters of a workload from typed text; each may have several values.

    Args:
        info: the workload.
        texts: typed values by parameter name; other parameters keep their value.
        present: the values to keep; a default replaces each missing one.
    """
    known = {parameter.name: parameter for parameter in info.parameters}
    many: dict[str, tuple[Setting, ...]] = {}
    errors: dict[str, str] = {}
    for name, text in texts.items():
        if name not in known:
            continue
        try:
            values = parse_values(known[name], text)
        except ValueError as refusal:
            errors[name] = str(refusal)
        else:
            many[name] = values
    single = {name: text for name, text in texts.items() if name not in known}
    single |= {name: format_value(values[0]) for name, values in many.items()}
    base = validate(info, single, present)
    if isinstance(base, Invalid):
        errors |= base.errors
    if errors or isinstance(base, Invalid):
        return Invalid(errors)
    swept = {name: values for name, values in many.items() if len(values) > 1}
    if not swept:
        return base
    count = math.prod(map(len, swept.values()))
    if count > MOST_RUNS:
        sizes = " x ".join(f"{len(values)} of {name}" for name, values in swept.items())
        words = f"{sizes} are {count} runs; a sweep has at most {MOST_RUNS}"
        return Invalid({next(iter(swept)): words})
    points = tuple(
        {**base.parameters, **dict(zip(swept, chosen, strict=True))}
        for chosen in itertools.product(*swept.values())
    )
    return Sweep({name: texts[name].strip() for name in swept}, points, find_autos(info))


def parse_values(info: ParameterInfo, text: str) -> tuple[Setting, ...]:
    """Return the distinct values of a text; a single value if it is no sweep.

    Raises:
        ValueError: a value is not allowed, the range is malformed, or a range or list has a
            single value: that is probably a mistake, and would change the parameter permanently.
    """
    try:
        return (parse_value(info, text),)
    except ValueError:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) == 1 and ".." not in text and text.strip() != "*":
            raise
    values: dict[Setting, None] = {}
    for part in parts:
        for value in _parse_part(info, part):
            values[value] = None
            if len(values) > MOST_RUNS:
                shown = _escape(text.strip())
                raise ValueError(f"{info.name}: {shown} has more than {MOST_RUNS} values")
    if len(values) == 1 and text.strip() != "*":
        raise ValueError(_describe_single_value(info, text, *values))
    return tuple(values)


_EXAMPLE_BELOW = 64
"""Divisor of the default that gives the start of a sweep's example."""


def make_sweep_example(info: ParameterInfo) -> str:
    """Return an example of a multiplicative range; empty if the parameter is not numeric.

    The range has powers of two from far below the default to above it: a GPU overtakes the CPU
    where a call takes longer than its launch, as it does at the defaults.
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


def describe_several(info: ParameterInfo) -> str:
    """Describe the syntax of several values."""
    example = make_sweep_example(info)
    return f"{example}, 1..9+2 or 256,1024" if example else "commas between them"


def _describe_single_value(info: ParameterInfo, text: str, value: Setting) -> str:
    how = describe_several(info)
    if info.choices or isinstance(info.default, bool):
        how = (
            f"{','.join(map(format_value, info.choices or (True, False)))} lists, * is every choice"
        )
    shown = _escape(text.strip())
    single = format_value(value, auto=info.auto)
    return f"{info.name}: {shown} is one value, {single}; write {single} for it, or several: {how}"


def _parse_part(info: ParameterInfo, part: str) -> Iterator[Setting]:
    if part == "*":
        if isinstance(info.default, bool):
            yield from info.choices or (True, False)
        elif info.choices:
            yield from info.choices
        else:
            raise ValueError(
                f"{info.name}: * is for choices; here a range: {describe_allowed(info)}"
            )
    elif ".." in part and not isinstance(info.default, (str, bool)):
        for number in _parse_range(info, part):
            yield parse_value(info, format_value(number))
    else:
        yield parse_value(info, part)


def _parse_range(info: ParameterInfo, part: str) -> Iterator[int | float]:
    """Yield the numbers of a range up to its end, inclusive if a step meets it."""
    shown = _escape(part)
    ends = part.partition("..")
    example = f"{_escape(ends[0].strip()) or 1}..{re.split('[x*+]', ends[2])[0].strip() or 9}"
    how = f"write {example}x2 to multiply or {example}+1 to add; {describe_allowed(info)}"
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


def replace_invalid(
    info: WorkloadInfo, chosen: dict[str, Setting]
) -> tuple[dict[str, Setting], tuple[str, ...]]:
    """Return all parameters of a workload: the requested values if allowed, else the defaults.

    Returns:
        The parameters, and a line for each requested value that is not allowed.
    """
    texts = {name: format_value(value) for name, value in chosen.items()}
    outcome = validate(info, texts)
    errors: tuple[str, ...] = ()
    if isinstance(outcome, Invalid):
        errors = tuple(outcome.errors.values())
        good = {name: text for name, text in texts.items() if name not in outcome.errors}
        outcome = validate(info, good)
        assert not isinstance(outcome, Invalid)
    return outcome.parameters, errors
