"""The roofline model of a device: its limits, and the measured runs below them. Pure.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009: FLOP/s is at most the lower of the compute limit and of the
memory's byte/s times the FLOP per byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tui.runs.state.result_format import label_limit
from tui.runs.state.runs import RunState, find_limited_rate
from tui.runs.state.state import RunsState
from workloads.limits import limits
from workloads.limits.ceilings import newest
from workloads.protocol.results import Basis, Ceiling, Environment, RunResult, Setting, TorchDevice

PLAIN = "float32"
"""The precision whose limit is drawn if no run names another."""


@dataclass(frozen=True, slots=True)
class Roof:
    """One limit: FLOP/s of a precision, or byte/s of the memory."""

    name: str
    value: float
    basis: Basis

    @property
    def label(self) -> str:
        """The name of the limit: ``float32 peak``, or ``float32 ceiling`` if it was measured."""
        return label_limit(self.name, self.basis)


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A run with known operations and known bytes."""

    workload: str
    parameters: dict[str, Setting]
    flop_per_byte: float
    """Arithmetic intensity, from the least bytes that a call must move."""
    flop_per_s: float
    limit: float | None
    """FLOP/s limit of its precision; ``None`` if the memory is the nearer limit."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """A device's limits and its points."""

    device: str
    compute: tuple[Roof, ...]
    """Limits in FLOP/s, highest first."""
    memory: Roof | None
    """The memory's limit in byte/s."""
    points: tuple[RooflinePoint, ...]

    def roof(self, point: RooflinePoint) -> float | None:
        """Return the attainable FLOP/s of a point; ``None`` if its limit is unknown.

        With the memory's limit unknown, it is the flat part that the point's own run refers to.
        """
        if self.memory is None:
            return point.limit
        compute = point.limit or next((roof.value for roof in self.compute), None)
        if compute is None:
            return None
        return min(compute, self.memory.value * point.flop_per_byte)


def build_roofline(state: RunsState, device: str) -> Roofline:
    """Return the known limits of a torch device and the newest run of each setting on it."""
    results = _find_newest_results(state.book.values(), device)
    known = _find_known_limits(results.values())
    environment = state.machine.environment
    devices = environment.devices if environment else ()
    described = next((candidate for candidate in devices if candidate.id == device), None)
    ceilings: dict[str, Ceiling] = {}
    if environment is not None and described is not None:
        ceilings = {
            ceiling.kind: ceiling
            for ceiling in newest(state.ceilings)
            if applies_to(ceiling, described, environment)
        }
    kinds = [name for name, (_, unit) in known.items() if unit == "FLOP/s"] or [PLAIN]
    compute = [_find_roof(kind, kind, known, described, ceilings) for kind in kinds]
    return Roofline(
        device,
        tuple(sorted(filter(None, compute), key=lambda roof: -roof.value)),
        _find_roof(limits.name_of(limits.MEMORY), limits.MEMORY, known, described, ceilings),
        tuple(point for result in results.values() if (point := _make_point(result)) is not None),
    )


def _find_newest_results(runs: Iterable[RunState], device: str) -> dict[object, RunResult]:
    """Return the newest correct result of each workload with each setting.

    The presentation's count only where the user has none, as in the table.
    """
    newest: dict[object, RunResult] = {}
    for run in sorted(runs, key=lambda run: not run.demo):
        result = run.result
        if result is None or result.time is None or result.device != device:
            continue
        if result.status == "ok":
            settings = {**result.parameters, **result.chosen}
            newest[result.workload, tuple(sorted(settings.items()))] = result
    return newest


def _find_known_limits(results: Iterable[RunResult]) -> dict[str, tuple[Roof, str]]:
    """Return the limits that results refer to, by name, each with its unit."""
    roofs: dict[str, tuple[Roof, str]] = {}
    for result in results:
        rate = find_limited_rate(result)
        if result.limit is not None and rate is not None:
            limit = result.limit
            roofs[limit.name] = (Roof(limit.name, limit.value, limit.basis), rate[1])
    return roofs


def _find_roof(
    name: str,
    kind: str,
    known: dict[str, tuple[Roof, str]],
    device: TorchDevice | None,
    ceilings: dict[str, Ceiling],
) -> Roof | None:
    """Return the limit that a run names, else the hardware's peak, else the measured ceiling."""
    if name in known:
        return known[name][0]
    limit = limits.hardware_limit(device, kind, 1.0) if device is not None else None
    if limit is not None:
        return Roof(limit.name, limit.value, limit.basis)
    ceiling = ceilings.get(limits.ceiling_kind(kind) or "")
    return Roof(limits.name_of(kind), ceiling.value, "measured") if ceiling else None


def applies_to(ceiling: Ceiling, device: TorchDevice, environment: Environment) -> bool:
    """Return whether a ceiling was measured on this device, with this torch and these threads."""
    under = ceiling.under
    if under.get("torch") != environment.torch:
        return False
    if device.id == "cpu":
        present = {
            "cpu": device.name,
            "cpus": str(environment.cpus_usable),
            "threads": str(environment.threads),
        }
        return all(under.get(name) == value for name, value in present.items())
    return under.get("device") == (device.uuid or device.name)


def _make_point(result: RunResult) -> RooflinePoint | None:
    flop, byte = result.rates.flop_per_s, result.rates.byte_per_s
    if not flop or not byte:
        return None
    settings = {**result.parameters, **result.chosen}
    rate = find_limited_rate(result)
    limit = result.limit.value if result.limit and rate and rate[1] == "FLOP/s" else None
    return RooflinePoint(result.workload, settings, flop / byte, flop, limit)
