"""Parameters as people type them: text to checked values, or a line that says what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping

from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import ParameterInfo, Setting, WorkloadInfo


@frozen
class Valid:
    """All parameters of the workload, complete and checked."""

    parameters: dict[str, Setting]


@frozen
class Invalid:
    """One line per bad parameter, by its name; each says what is allowed."""

    errors: dict[str, str]


def defaults(info: WorkloadInfo) -> dict[str, Setting]:
    """What the catalogue runs the workload with."""
    return {parameter.name: parameter.default for parameter in info.parameters}


def changed(info: WorkloadInfo, present: Mapping[str, Setting]) -> dict[str, Setting]:
    """The parameters that differ from their defaults."""
    usual = defaults(info)
    return {name: value for name, value in present.items() if value != usual.get(name)}


AUTO = "auto"
"""What 0 is called where it leaves the number to the workload."""


def autos(info: WorkloadInfo) -> tuple[str, ...]:
    """The parameters whose 0 is called :data:`AUTO`."""
    return tuple(parameter.name for parameter in info.parameters if parameter.auto)


def text_of(value: Setting, *, auto: bool = False) -> str:
    """A value as it is typed and shown: ``true`` and ``false`` for switches, ``auto`` for 0.

    Args:
        value: of a parameter.
        auto: its 0 leaves the number to the workload (``ParameterInfo.auto``).
    """
    if auto and value == 0 and not isinstance(value, (bool, str)):
        return AUTO
    return str(value).lower() if isinstance(value, bool) else str(value)


def allowed(info: ParameterInfo) -> str:
    """What a parameter may be set to: ``whole number, 16 to 65536``, ``float32, bfloat16``."""
    if info.choices:
        return ", ".join(text_of(choice) for choice in info.choices)
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


def parse(info: ParameterInfo, text: str) -> Setting:
    """The value that the text stands for.

    Raises:
        ValueError: it is not allowed; the message names what is.
    """
    typed = text.strip()
    if isinstance(info.default, bool):
        typed = typed.lower()
    try:
        return _parsed(info, typed)
    except ValueError:
        shown = _visible(typed) or "nothing"
        raise ValueError(f"{info.name}: {shown} is not allowed; {allowed(info)}") from None


def _parsed(info: ParameterInfo, typed: str) -> Setting:
    if info.choices or isinstance(info.default, bool):
        choices = {text_of(item): item for item in info.choices or (True, False)}
        if typed not in choices:
            raise ValueError(typed)
        return choices[typed]
    if isinstance(info.default, str):
        if not re.fullmatch(info.form, typed):
            raise ValueError(typed)
        return typed
    if info.auto and typed.lower() == AUTO:
        return 0
    number = _number(typed, whole=isinstance(info.default, int))
    if info.auto and number == 0:
        return number
    low, high = info.minimum, info.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(typed)
    return number


def _visible(typed: str) -> str:
    """What was typed on one line, its control characters escaped."""
    return repr(typed)[1:-1]


def _number(typed: str, *, whole: bool) -> int | float:
    if not typed.isascii():
        raise ValueError(typed)
    # Groups of three as they are shown, 65 536 or 65_536, are taken back.
    digits = typed.replace(" ", "").replace("_", "")
    if whole:
        return int(digits)
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(typed)
    return number


def validate(
    info: WorkloadInfo,
    texts: Mapping[str, str],
    present: Mapping[str, Setting] | None = None,
) -> Valid | Invalid:
    """All parameters of a workload from typed text.

    Args:
        info: the workload.
        texts: typed values by parameter name; those not named keep their value.
        present: the values to keep; the defaults where it is ``None`` or lacks one.
    """
    values: dict[str, Setting] = {}
    errors: dict[str, str] = {}
    for parameter in info.parameters:
        values[parameter.name] = (present or {}).get(parameter.name, parameter.default)
        if parameter.name in texts:
            try:
                values[parameter.name] = parse(parameter, texts[parameter.name])
            except ValueError as refusal:
                errors[parameter.name] = str(refusal)
    known = ", ".join(parameter.name for parameter in info.parameters)
    for name in texts:
        if name not in values:
            errors[name] = (
                f"{info.name} has no parameter {_visible(name)}; it has {known or 'none'}"
            )
    return Invalid(errors) if errors else Valid(values)


def short(parameters: Mapping[str, Setting], auto: Collection[str] = ()) -> str:
    """The parameters in a few cells; words speak for themselves, numbers get their name.

    Args:
        parameters: values by name.
        auto: those whose 0 is called :data:`AUTO`.
    """
    return " ".join(
        value if isinstance(value, str) else f"{name}={text_of(value, auto=name in auto)}"
        for name, value in parameters.items()
        if value != ""
    )
