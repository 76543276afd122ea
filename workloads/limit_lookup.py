"""Look up the limit of a run's rate, and measure a ceiling where there is no other.

Measuring comes at the end of a run: what it allocates would be in the run's peaks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workloads import ceiling_bench, environment, limits, pcie_link
from workloads.ceilings import Ceilings
from workloads.clocks import Clock
from workloads.frozen import frozen
from workloads.place import Place
from workloads.results import Ceiling, Limit, Rates
from workloads.timing import Cancelled, Control
from workloads.workload import Case, Skip

HALVES = ("float16", "bfloat16")
NO_RATE = "this workload is not held against a limit"


@frozen
class LimitQuery:
    """A rate, and the kind of limit that is looked up for it."""

    kind: str
    """A precision, ``memory``, ``pcie`` or ``nvlink``."""
    rate: float


def queries(case: Case, rates: Rates, device: torch.device) -> tuple[LimitQuery, ...] | str:
    """What is looked up for a run's rates, operations before bytes, or why nothing is."""
    asked = []
    if rates.flop_per_s is not None and case.precision is not None:
        asked.append(LimitQuery(case.precision, rates.flop_per_s))
    traffic = _of_bytes(case, rates, device)
    if isinstance(traffic, LimitQuery):
        return (*asked, traffic)
    return tuple(asked) or traffic


def _of_bytes(case: Case, rates: Rates, device: torch.device) -> LimitQuery | str:
    if rates.byte_per_s is None or case.byte_limit is None:
        return NO_RATE
    if case.byte_limit == limits.PCIE and device.type != "cuda":
        return f"PCI Express is not what bounds {device.type}"
    cache = environment.last_cache(device)
    return limits.cached(case.byte_limit, case.byte, cache) or LimitQuery(
        case.byte_limit, rates.byte_per_s
    )


def nearest(asked: Sequence[LimitQuery], device: torch.device, ceilings: Ceilings) -> Limit | None:
    """Of the limits that are known, the one that is reached first: the lower part of the roofline.

    ``None`` where that of the first query is not known: the others do not tell how far the
    device's units are from theirs.
    """
    found = [find(query, device, ceilings) for query in asked]
    if found[0] is None:
        return None
    return max((limit for limit in found if limit is not None), key=lambda limit: limit.fraction)


def kinds_of_ceiling(kind: str, device_type: str) -> tuple[str, ...]:
    """The ceilings of which the highest stands in for a limit; none where there is none to measure.

    A CPU may compute in float32 what is stored in 16 bits, and is often faster by that.

    Args:
        kind: a precision, ``memory``, ``pcie`` or ``nvlink``.
        device_type: cpu, cuda or mps.
    """
    own = limits.ceiling_kind(kind)
    if own is None:
        return ()
    return (own, "float32") if device_type == "cpu" and own in HALVES else (own,)


def find(asked: LimitQuery, device: torch.device, ceilings: Ceilings) -> Limit | None:
    """The limit, as far as nothing has to be measured for it."""
    described = environment.device(device)
    link = pcie_link.read(described.pci_bus_id) if asked.kind == limits.PCIE else None
    limit = limits.hardware_limit(described, asked.kind, asked.rate, link)
    kinds = kinds_of_ceiling(asked.kind, device.type)
    if limit is not None or not kinds:
        return limit
    under = ceiling_bench.under(device)
    found = [ceilings.find(kind, under) for kind in kinds]
    return _highest([ceiling for ceiling in found if ceiling is not None], len(kinds), asked)


def _highest(found: list[Ceiling], wanted: int, asked: LimitQuery) -> Limit | None:
    """The limit by the highest ceiling, once all that are wanted are there."""
    if len(found) < wanted:
        return None
    highest = max(found, key=lambda ceiling: ceiling.value)
    return limits.measured_limit(highest, asked.kind, asked.rate)


def measure(
    asked: LimitQuery, device: torch.device, clock: Clock, control: Control, ceilings: Ceilings
) -> Limit | str:
    """The limit by ceilings measured now, or why there is none.

    A ceiling that was exceeded is measured again by this; the higher of the two stays.
    """
    kinds = kinds_of_ceiling(asked.kind, device.type)
    under = ceiling_bench.under(device)
    before = {kind: ceilings.find(kind, under) for kind in kinds}
    lacking = [kind for kind in kinds if before[kind] is None]
    try:
        for kind in lacking or kinds:
            measure_ceiling(kind, device, clock, control, ceilings, at_least=before[kind])
    except Cancelled:
        return "cancelled before a ceiling was measured"
    except Skip as none_such:
        return str(none_such)
    except RuntimeError as error:
        return f"its ceiling cannot be measured: {str(error).splitlines()[0]}"
    limit = find(asked, device, ceilings)
    return limit or f"no limit is known for {limits.name_of(asked.kind)} of this device"


def measure_ceiling(
    kind: str,
    device: torch.device,
    clock: Clock,
    control: Control,
    ceilings: Ceilings,
    at_least: Ceiling | None = None,
    seconds: float = ceiling_bench.SECONDS,
) -> Ceiling:
    """Measure a ceiling and make it known.

    Args:
        kind: a precision or ``copy``.
        device: whose.
        clock: of it.
        control: told that it goes on; may end it.
        ceilings: takes it.
        at_least: one that holds; it stays if it is higher.
        seconds: of the blocks that count.

    Raises:
        Cancelled: the control ended it.
        Skip: the device has no such numbers.
        RuntimeError: what torch says.
    """
    ceiling = ceiling_bench.measure(kind, Place(str(device)), clock, control, seconds)
    if at_least is not None and at_least.value > ceiling.value:
        return at_least
    ceilings.add(ceiling)
    return ceiling
