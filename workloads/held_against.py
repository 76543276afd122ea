"""Find the limit that a run's rate is held against, and measure a ceiling where there is no other.

Measuring comes at the end of a run: what it allocates would be in the run's peaks.
"""

from __future__ import annotations

import torch

from workloads import ceiling_bench, environment, limits
from workloads.ceilings import Ceiling, Ceilings
from workloads.clocks import Clock
from workloads.fact import fact
from workloads.place import Place
from workloads.results import Limit, Rates
from workloads.timing import Cancelled, Control
from workloads.workload import Case, Skip

NO_RATE = "this workload is not held against a limit"


@fact
class Question:
    """A rate, and what kind of limit it asks for."""

    kind: str
    """A precision, ``memory`` or ``pcie``."""
    rate: float


def question(case: Case, rates: Rates, device: torch.device) -> Question | str:
    """What a run's rates ask for, or why they ask for nothing: operations before bytes."""
    if rates.flop_per_s is not None and case.precision is not None:
        return Question(case.precision, rates.flop_per_s)
    if rates.byte_per_s is None or case.byte_limit is None:
        return NO_RATE
    if case.byte_limit == limits.PCIE and device.type != "cuda":
        return f"PCI Express is not what bounds {device.type}"
    cache = environment.last_cache(device)
    return limits.cached(case.byte_limit, case.byte, cache) or Question(
        case.byte_limit, rates.byte_per_s
    )


def known(asked: Question, device: torch.device, ceilings: Ceilings) -> Limit | None:
    """The limit, as far as nothing has to be measured for it."""
    limit = limits.hardware_limit(environment.device(device), asked.kind, asked.rate)
    kind = limits.ceiling_kind(asked.kind)
    if limit is not None or kind is None:
        return limit
    ceiling = ceilings.find(kind, ceiling_bench.under(device))
    return None if ceiling is None else limits.measured_limit(ceiling, asked.kind, asked.rate)


def measured(
    asked: Question, device: torch.device, clock: Clock, control: Control, ceilings: Ceilings
) -> Limit | str:
    """The limit by a ceiling measured now, or why there is none.

    A ceiling that was exceeded is measured again by this; the higher of the two stays.
    """
    kind = limits.ceiling_kind(asked.kind)
    if kind is None:
        return f"no limit is known for {limits.name_of(asked.kind)} of this device"
    before = ceilings.find(kind, ceiling_bench.under(device))
    try:
        ceiling = anew(kind, device, clock, control, ceilings, before)
    except Cancelled:
        return "cancelled before a ceiling was measured"
    except Skip as none_such:
        return str(none_such)
    except RuntimeError as error:
        return f"its ceiling cannot be measured: {str(error).splitlines()[0]}"
    return limits.measured_limit(ceiling, asked.kind, asked.rate)


def anew(
    kind: str,
    device: torch.device,
    clock: Clock,
    control: Control,
    ceilings: Ceilings,
    at_least: Ceiling | None = None,
) -> Ceiling:
    """Measure a ceiling and make it known.

    Args:
        kind: a precision or ``copy``.
        device: whose.
        clock: of it.
        control: told that it goes on; may end it.
        ceilings: takes it.
        at_least: one that holds; it stays if it is higher.

    Raises:
        Cancelled: the control ended it.
        Skip: the device has no such numbers.
        RuntimeError: what torch says.
    """
    ceiling = ceiling_bench.measure(kind, Place(str(device)), clock, control)
    if at_least is not None and at_least.value > ceiling.value:
        return at_least
    ceilings.add(ceiling)
    return ceiling
