"""What is kept of a run or a comparison, and the facts of what it was measured on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tui.devices.monitor.messages import Device, Sample
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.machine import MachineState
from tui.runs.state.runs import CompareState, Conditions, RunState
from workloads.protocol import wire
from workloads.protocol.results import (
    Comparison,
    Environment,
    RunResult,
    Setting,
    Status,
    TorchDevice,
)

Kind = Literal["run", "comparison"]
ID_LENGTH = 16
"""Hexadecimal digits of an id; the first few that no other result has are enough to name one."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a figure depends on beside the workload: the same facts have the same hash."""

    values: dict[str, str]
    """By their names, in :data:`ORDER`."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Why a fact that matters is not known, by its name."""

    @property
    def hash(self) -> str:
        """What the facts are stored under."""
        return digest([sorted(self.values.items()), sorted(self.unknown)])

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """The backend's flags, sorted; their names begin with :data:`FLAG`."""
        return tuple(item for item in sorted(self.values.items()) if item[0].startswith(FLAG))


@dataclass(frozen=True, slots=True)
class Record:
    """One run or one comparison as it is kept."""

    id: str
    kind: Kind
    at: float
    """Unix time at which it ended."""
    process: str
    """Of the runner that measured it: what is the same came from one process."""
    sweep: str
    """Runs of one sweep have the same; empty for others."""
    workload: str
    device: str
    """In torch's words."""
    parameters: dict[str, Setting]
    """As they were used."""
    status: Status
    reason: str | None
    budget: str
    """How long it was to be timed; empty where that is not known."""
    conditions: Conditions | None
    run: RunResult | None = None
    comparison: Comparison | None = None

    @property
    def median_s(self) -> float | None:
        """Seconds per call; ``None`` of a comparison and of a run without a time."""
        return self.run.time.median_s if self.run is not None and self.run.time else None

    @property
    def ci95_s(self) -> tuple[float, float] | None:
        """Of the median within this run: of its blocks, not from run to run."""
        return self.run.time.ci95_s if self.run is not None and self.run.time else None

    @property
    def marks(self) -> tuple[str, ...]:
        """What there is to say against it, a line each: it is compared all the same."""
        found = self.run or self.comparison
        seen = self.conditions.warnings if self.conditions else ()
        return tuple(dict.fromkeys((*seen, *(found.warnings if found else ()))))


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A record with what it was measured on: what goes into the store and into a file."""

    record: Record
    facts: Facts
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredRow:
    """What lists and comparisons need of a record; its body stays where it is."""

    number: int
    """In the store; the newest that was put in has the highest."""
    id: str
    kind: Kind
    at: float
    process: str
    workload: str
    device: str
    parameters: str
    """As :func:`canonical` text, so that it can be compared as it is."""
    status: Status
    median_s: float | None
    ci95_s: tuple[float, float] | None
    environment: str
    """The hash of its facts."""
    marks: tuple[str, ...]
    said: str
    """Of a comparison its outcome, of a run without a time the reason."""
    clock_mhz: float | None
    """Median clock of the GPU's multiprocessors meanwhile; ``None`` where it was not sampled."""
    limits: tuple[str, ...]
    """What held the clocks down meanwhile, in NVML's words, harmful or not."""


def row_of(kept: StoredResult, said: str = "", number: int = 0) -> StoredRow:
    """Return the row of a record that lists and comparisons need.

    Args:
        kept: the record.
        said: its outcome, where it has no time of its own.
        number: in the store; 0 of one that is not there.
    """
    record, seen = kept.record, kept.record.conditions
    return StoredRow(
        number=number,
        id=record.id,
        kind=record.kind,
        at=record.at,
        process=record.process,
        workload=record.workload,
        device=record.device,
        parameters=canonical(record.parameters),
        status=record.status,
        median_s=record.median_s,
        ci95_s=record.ci95_s,
        environment=kept.facts.hash,
        marks=record.marks,
        said=said,
        clock_mhz=seen.sm_clock_mhz_median if seen else None,
        limits=seen.throttle if seen else (),
    )


def gpu_of(facts: Facts) -> str:
    """Return the UUID of the first GPU, or an empty string if none is known."""
    return facts.values.get("gpu uuid", "").partition(", ")[0]


def canonical(value: object) -> str:
    """JSON that is the same text for the same value, whatever the order of its names."""
    plain = wire.to_plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """Return the first digits of the SHA-256 of a value's canonical text."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:ID_LENGTH]


def id_of(result: RunResult | Comparison, at: float) -> str:
    """Return an id of a result that is the same on every box.

    It is made of what was measured and when, so that a result that comes in by two ways, from the
    program and from what it printed, is the same.

    Args:
        result: of the runner.
        at: Unix time at which it ended, for one that measured nothing.
    """
    told: Mapping[str, Any]
    if isinstance(result, RunResult):
        blocks = result.time.block_times_s if result.time else ()
        when = (result.started_at, result.ended_at) if result.ended_at else (at,)
        told = {"flags": result.flags, "blocks": blocks, "when": when}
    else:
        when = result.measured[0] if result.measured else (at,)
        told = {"flag": result.flag, "pairs": result.pair_ratios, "when": when}
    return digest([result.workload, result.device, result.parameters, result.status, told])


FLAG = "flag "
"""Before the name of a backend's flag among the facts."""
VARIABLE = "variable "
"""Before the name of an environment variable."""
ORDER = (
    "box",
    "gpu",
    "gpu uuid",
    "vbios",
    "power limit",
    "driver",
    "cuda",
    "cudnn",
    "torch",
    "python",
    "cpu",
    "cpus",
    "threads",
    "interop threads",
    "malloc",
    "kernel",
    "container",
)
"""The facts in the order in which differences are told; flags and variables follow."""
VERSIONS = ("driver", "cuda", "cudnn", "torch", "python", "kernel")
"""Facts that the first parts of a version select: ``torch=2.12`` is 2.12.0 and 2.12.1+cu130."""

_NAMED_BY_SYSTEMD = "container"
"""The variable that systemd, podman and others set (systemd.io/CONTAINER_INTERFACE)."""

NOT_SEEN = "the monitor did not see this device"
NOT_GIVEN = "NVML did not give it"
NOT_READY = "the runner did not say"


def place(name: str) -> tuple[int, str]:
    """Where a fact stands among others: those that matter most are first."""
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def facts_of(
    environment: Environment | None,
    sample: Sample | None,
    views: Sequence[DeviceView],
    devices: Sequence[str],
    flags: Mapping[str, bool],
) -> Facts:
    """Collect the facts of a measurement on this box.

    Args:
        environment: of the runner.
        sample: the monitor's newest, where there is a monitor.
        views: the devices under both of their names.
        devices: that worked, in torch's words.
        flags: that it ran under.
    """
    values = {
        "box": sample.host.name if sample else platform.node(),
        "kernel": f"{platform.system()} {platform.release()}",
        "container": _container(),
    }
    unknown: dict[str, str] = {}
    _add_software(environment, flags, values, unknown)
    _add_gpus(environment, sample, views, devices, values, unknown)
    return Facts(values, unknown)


def facts_of_output(
    environment: Environment | None, devices: Sequence[str], flags: Mapping[str, bool]
) -> Facts:
    """Collect the facts of a result printed by ``run --json``, which does not name its box.

    Args:
        environment: as it was printed.
        devices: that worked, in torch's words.
        flags: that it ran under.
    """
    reason = "not in the output of run --json"
    values: dict[str, str] = {}
    unknown = dict.fromkeys(("box", "kernel", "container"), reason)
    _add_software(environment, flags, values, unknown)
    _add_gpus(environment, None, (), devices, values, unknown)
    return Facts(
        values, {name: reason if why == NOT_SEEN else why for name, why in unknown.items()}
    )


def _add_software(
    environment: Environment | None,
    flags: Mapping[str, bool],
    values: dict[str, str],
    unknown: dict[str, str],
) -> None:
    values.update({f"{FLAG}{name}": "on" if on else "off" for name, on in sorted(flags.items())})
    if environment is None:
        unknown.update(dict.fromkeys(("torch", "python", "cpu", "threads"), NOT_READY))
        return
    values.update(
        torch=environment.torch,
        python=environment.python,
        cpu=environment.cpu,
        cpus=str(environment.cpus_usable),
        threads=str(environment.threads),
        malloc=environment.malloc,
    )
    values["interop threads"] = str(environment.interop_threads)
    values.update(
        {f"{VARIABLE}{name}": text for name, text in sorted(environment.variables.items())}
    )


def _add_gpus(
    environment: Environment | None,
    sample: Sample | None,
    views: Sequence[DeviceView],
    devices: Sequence[str],
    values: dict[str, str],
    unknown: dict[str, str],
) -> None:
    """Add what is known of the GPUs that worked, or nothing if only the CPU did."""
    names = [name for name in devices if name.startswith("cuda")]
    if not names:
        return
    known = {device.id: device for device in (environment.devices if environment else ())}
    torch = [known[name] for name in names if name in known]
    seen = {view.torch: view.nvml for view in views if view.torch and view.nvml}
    nvml = [device for name in names if (device := seen.get(name)) is not None]
    facts: dict[str, str] = {
        "gpu": _together(_name(device, seen) for device in torch),
        "gpu uuid": _together(device.uuid for device in torch),
        "vbios": _together(device.vbios for device in nvml),
        "power limit": _together(_watts(device) for device in nvml),
        "driver": (sample.driver.version if sample else None) or "",
    }
    for name, text in facts.items():
        if text:
            values[name] = text
        else:
            unknown[name] = NOT_GIVEN if nvml else NOT_SEEN
    if environment is None:
        return
    for name, version in (("cuda", environment.cuda), ("cudnn", environment.cudnn)):
        if version is not None:
            values[name] = version
        else:
            unknown[name] = environment.unavailable.get(name, NOT_READY)


def _name(device: TorchDevice, seen: Mapping[str, Device]) -> str:
    found = seen.get(device.id)
    return found.name if found else device.name


def _watts(device: Device) -> str | None:
    return None if device.power_limit_w is None else f"{device.power_limit_w:g} W"


def _together(texts: Iterable[str | None]) -> str:
    """Join texts, each once with its count; return nothing if one of them is not known."""
    found = list(texts)
    if not all(found):
        return ""
    counted = {text: found.count(text) for text in found}
    return ", ".join(
        f"{count} x {text}" if count > 1 else f"{text}" for text, count in counted.items()
    )


@functools.cache
def _container() -> str:
    """Return the kind of container that this program and its runner are in."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if named := os.environ.get(_NAMED_BY_SYSTEMD):
        return named
    for mark, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(mark).exists():
            return name
    return "none"


# ---- from what a session knows -----------------------------------------------------------------


def stored_form(
    state: RunState | CompareState, machine: MachineState, process: str, sweep: str = ""
) -> StoredResult | None:
    """Build the stored result of a run or a comparison.

    Args:
        state: as the store has it, its conditions included.
        machine: the devices and the environment.
        process: what stands for the runner's process among all that there ever were.
        sweep: what stands for the sweep that a run belongs to; empty for none.

    Returns:
        ``None`` of one that measured nothing and did not fail.
    """
    if isinstance(state, RunState):
        result = state.result
        if result is None or not is_kept(result):
            return None
        ended = result.ended_at or (result.time.measured_to if result.time else time.time())
        facts = _facts(machine, devices_of(result), result.flags)
        record = run_record(
            result,
            ended,
            process=process,
            sweep=sweep,
            budget=state.request.budget,
            conditions=state.conditions,
        )
        return StoredResult(record, facts)
    compared = state.comparison
    if compared is None or not state.done:
        return None
    if not compared.pair_ratios and compared.status != "failed":
        return None
    ended = max((end for _, end in compared.measured), default=time.time())
    record = Record(
        id=id_of(compared, ended),
        kind="comparison",
        at=ended,
        process=process,
        sweep="",
        workload=compared.workload,
        device=compared.device,
        parameters=compared.parameters,
        status=compared.status,
        reason=compared.reason,
        budget=state.request.budget,
        conditions=state.conditions,
        comparison=compared,
    )
    return StoredResult(record, _facts(machine, devices_of(compared), state.request.flags))


def is_kept(result: RunResult) -> bool:
    """Return whether there is something to keep: a time, or that it failed."""
    return result.time is not None or result.status == "failed"


def run_record(
    result: RunResult,
    ended: float,
    *,
    process: str,
    sweep: str = "",
    budget: str = "",
    conditions: Conditions | None,
) -> Record:
    """Build the record of a run.

    Args:
        result: its end.
        ended: Unix time of it.
        process: as :func:`kept_of` takes it.
        sweep: likewise.
        budget: that it was given; empty where that is not known.
        conditions: under which it ran; ``None`` where they are not known.
    """
    return Record(
        id=id_of(result, ended),
        kind="run",
        at=ended,
        process=process,
        sweep=sweep,
        workload=result.workload,
        device=result.device,
        parameters={**result.parameters, **result.chosen},
        status=result.status,
        reason=result.reason,
        budget=budget,
        conditions=conditions,
        run=result,
    )


def devices_of(result: RunResult | Comparison) -> tuple[str, ...]:
    """Return torch's names of the devices that worked."""
    if isinstance(result, Comparison):
        return result.devices or (result.device,)
    names = dict.fromkeys(name for span in result.spans for name in span.devices)
    return tuple(dict.fromkeys((result.device, *(name for name in names if name != CPU))))


def _facts(machine: MachineState, devices: tuple[str, ...], flags: dict[str, bool]) -> Facts:
    return facts_of(machine.environment, machine.sample, machine.devices, devices, flags)
