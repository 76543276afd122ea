"""The stored record of a run or a comparison, and the facts of its environment."""

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
from typing import Any, ClassVar, Literal

from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.machine import MachineState
from tui.monitor.messages import Sample
from tui.results.store.gained_parameters import GAINED, complete_requested, complete_used
from tui.runs.state.runs import CompareState, Conditions, RunState
from workloads.protocol import wire
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import (
    Comparison,
    Environment,
    RunResult,
    Setting,
    Status,
)

Kind = Literal["run", "comparison"]
ID_LENGTH = 16
"""Hexadecimal digits of an id; users can type any unique beginning."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything but the workload that a figure depends on; equal facts have equal hashes."""

    values: dict[str, str]
    """Facts by name, in :data:`ORDER`."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Reasons for unknown facts that matter, by name."""

    @property
    def hash(self) -> str:
        """The hash that identifies the facts in the store."""
        return compute_digest([sorted(self.values.items()), sorted(self.unknown)])

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The facts, most important first."""
        return sorted(self.values.items(), key=lambda fact: rank_fact(fact[0]))

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """The backend flags, sorted; their names begin with :data:`FLAG`."""
        return tuple(item for item in sorted(self.values.items()) if item[0].startswith(FLAG))


@dataclass(frozen=True, slots=True)
class Record:
    """One stored run or comparison."""

    id: str
    kind: Kind
    at: float
    """Unix time at which it ended."""
    process: str
    """Name of the runner; equal names mean the same process."""
    sweep: str
    """Name of the sweep that the run belongs to; empty for none."""
    workload: str
    device: str
    """torch's name of the device."""
    parameters: dict[str, Setting]
    """The parameters as used."""
    status: Status
    reason: str | None
    budget: str
    """The measurement budget; empty if unknown."""
    conditions: Conditions | None
    run: RunResult | None = None
    comparison: Comparison | None = None

    @property
    def median_s(self) -> float | None:
        """Median in seconds per call; ``None`` for a comparison or a run without a time."""
        return self.run.time.median_s if self.run is not None and self.run.time else None

    @property
    def ci95_s(self) -> tuple[float, float] | None:
        """95% interval of the median over this run's blocks, not from run to run."""
        return self.run.time.ci95_s if self.run is not None and self.run.time else None

    @property
    def marks(self) -> tuple[str, ...]:
        """Doubts about the record, a line each; comparisons include it anyway."""
        measured = self.run or self.comparison
        seen = self.conditions.warnings if self.conditions else ()
        return tuple(dict.fromkeys((*seen, *(measured.warnings if measured else ()))))


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A record with its environment, as written to the store and to files."""

    record: Record
    facts: Facts
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredRow:
    """The part of a record that lists and comparisons need, without its body."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"outcome": "said"}

    number: int
    """Number in the store; the latest addition has the highest."""
    id: str
    kind: Kind
    at: float
    process: str
    workload: str
    device: str
    parameters: str
    """Text of :func:`encode_canonical`, as they were stored; :attr:`measured` compares."""
    status: Status
    median_s: float | None
    ci95_s: tuple[float, float] | None
    environment: str
    """The hash of its facts."""
    marks: tuple[str, ...]
    outcome: str
    """Outcome of a comparison, or the reason why a run has no time."""
    clock_mhz: float | None
    """Median clock of the GPU's multiprocessors during the run; ``None`` if not sampled."""
    limits: tuple[str, ...]
    """NVML's reasons for limited clocks during the run, harmful or not."""

    @property
    def valid_s(self) -> float | None:
        """The median in seconds per call; ``None`` unless the run succeeded."""
        return self.median_s if self.status == "ok" else None

    @property
    def measured(self) -> str:
        """Return the parameters as text that is equal where two runs measured the same.

        Parameters that the workload gained after the run are among them.
        """
        if self.workload not in GAINED:
            return self.parameters
        complete = complete_used if self.kind == "run" else complete_requested
        return encode_canonical(complete(self.workload, json.loads(self.parameters)))


def build_row(stored: StoredResult, outcome: str = "", number: int = 0) -> StoredRow:
    """Return the row of a record that lists and comparisons need.

    Args:
        stored: the stored result.
        outcome: its outcome, if it has no time.
        number: number in the store; 0 if it is not stored.
    """
    record, seen = stored.record, stored.record.conditions
    return StoredRow(
        number=number,
        id=record.id,
        kind=record.kind,
        at=record.at,
        process=record.process,
        workload=record.workload,
        device=record.device,
        parameters=encode_canonical(record.parameters),
        status=record.status,
        median_s=record.median_s,
        ci95_s=record.ci95_s,
        environment=stored.facts.hash,
        marks=record.marks,
        outcome=outcome,
        clock_mhz=seen.sm_clock_mhz_median if seen else None,
        limits=seen.throttle if seen else (),
    )


def find_gpu(facts: Facts) -> str:
    """Return the UUID of the first GPU, or an empty string if none is known."""
    return facts.values.get("gpu uuid", "").partition(", ")[0]


def encode_canonical(value: object) -> str:
    """Encode a value as JSON text that does not depend on the order of its names."""
    plain = wire.to_plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compute_digest(value: object) -> str:
    """Return the first digits of the SHA-256 of a value's canonical text."""
    return hashlib.sha256(encode_canonical(value).encode()).hexdigest()[:ID_LENGTH]


def compute_id(result: RunResult | Comparison, at: float) -> str:
    """Compute an id of a result that is the same on every machine.

    The id depends on the measurement and its time, so a result has the same id whether it comes
    from the program or from its printed output.

    Args:
        result: the result of the runner.
        at: Unix time of its end, used if it measured nothing.
    """
    facts: Mapping[str, Any]
    if isinstance(result, RunResult):
        blocks = result.time.block_times_s if result.time else ()
        when = (result.started_at, result.ended_at) if result.ended_at else (at,)
        facts = {"flags": result.flags, "blocks": blocks, "when": when}
    else:
        when = result.measured[0] if result.measured else (at,)
        facts = {"flag": result.flag, "pairs": result.pair_ratios, "when": when}
    return compute_digest([result.workload, result.device, result.parameters, result.status, facts])


FLAG = "flag "
"""Prefix of facts that are backend flags."""
VARIABLE = "variable "
"""Prefix of facts that are environment variables."""
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
"""The facts in the order in which differences are listed; flags and variables follow."""
VERSIONS = ("driver", "cuda", "cudnn", "torch", "python", "kernel")
"""Facts that match by version prefix: ``torch=2.12`` selects 2.12.0 and 2.12.1+cu130."""

_NAMED_BY_SYSTEMD = "container"
"""The variable that systemd, podman and others set (systemd.io/CONTAINER_INTERFACE)."""

NOT_SEEN = "the monitor did not see this device"
NOT_GIVEN = "not reported"
NOT_READY = "the runner did not say"
NOT_READ_THERE = "not read on another host"


def name_fact(name: str) -> str:
    """Return the words for a fact; the name of one in a filter and in JSON stays, as ``box``."""
    return {"box": "machine", "vbios": "VBIOS", "gpu": "GPU", "gpu uuid": "GPU UUID"}.get(
        name, name
    )


def rank_fact(name: str) -> tuple[int, str]:
    """Return the sort key of a fact; the most important facts are first."""
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def collect_facts(
    environment: Environment | None,
    sample: Sample | None,
    views: Sequence[DeviceView],
    devices: Sequence[str],
    flags: Mapping[str, bool],
    box: str = "",
) -> Facts:
    """Collect the facts of a measurement on this machine, or on another host.

    Args:
        environment: the environment of the runner.
        sample: newest sample of the monitor; ``None`` without a monitor.
        views: the devices with NVML's and torch's names.
        devices: torch's names of the devices that worked.
        flags: the backend flags of the run.
        box: the name by which another host was reached; empty for this machine.
    """
    values: dict[str, str] = {}
    unknown: dict[str, str] = {}
    if box:
        values["box"] = box
        unknown.update(dict.fromkeys(("kernel", "container"), NOT_READ_THERE))
    else:
        values["box"] = sample.host.name if sample else platform.node()
        values["kernel"] = f"{platform.system()} {platform.release()}"
        values["container"] = _detect_container()
    _add_software(environment, flags, values, unknown)
    _add_gpus(environment, sample, views, devices, values, unknown)
    return Facts(values, unknown)


def collect_output_facts(
    environment: Environment | None, devices: Sequence[str], flags: Mapping[str, bool]
) -> Facts:
    """Collect the facts of a result printed by ``run --json``, which does not name its machine.

    Args:
        environment: the printed environment.
        devices: torch's names of the devices that worked.
        flags: the backend flags of the run.
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
    values.update({f"{FLAG}{name}": format_setting(name, on) for name, on in sorted(flags.items())})
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
    """Add the facts of the GPUs that worked; add nothing if only the CPU did."""
    names = [name for name in devices if name.startswith("cuda")]
    if not names:
        return
    known = {device.id: device for device in (environment.devices if environment else ())}
    torch = [known[name] for name in names if name in known]
    seen = {view.torch: view.nvml for view in views if view.torch and view.nvml}
    nvml = [device for name in names if (device := seen.get(name)) is not None]
    facts: dict[str, str] = {
        "gpu": _join_counted(
            seen[device.id].name if device.id in seen else device.name for device in torch
        ),
        "gpu uuid": _join_counted(device.uuid for device in torch),
        "vbios": _join_counted(device.vbios for device in nvml),
        "power limit": _join_counted(
            None if device.power_limit_w is None else f"{device.power_limit_w:g} W"
            for device in nvml
        ),
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


def _join_counted(texts: Iterable[str | None]) -> str:
    """Join distinct texts with their counts; return an empty text if one of them is unknown."""
    items = list(texts)
    if not all(items):
        return ""
    counted = {text: items.count(text) for text in items}
    return ", ".join(
        f"{count} x {text}" if count > 1 else f"{text}" for text, count in counted.items()
    )


@functools.cache
def _detect_container() -> str:
    """Return the kind of container that this program and its runner run in."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if named := os.environ.get(_NAMED_BY_SYSTEMD):
        return named
    for mark, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(mark).exists():
            return name
    return "none"


# ---- from a session's state -------------------------------------------------------------------


def build_stored_result(
    state: RunState | CompareState, machine: MachineState, process: str, sweep: str = ""
) -> StoredResult | None:
    """Build the stored result of a run or a comparison.

    Args:
        state: the ended run or comparison, with its conditions.
        machine: the devices and the environment.
        process: a name of the runner's process that is unique among all runners ever.
        sweep: name of the sweep that the run belongs to; empty for none.

    Returns:
        The stored result; ``None`` if it measured nothing and did not fail.
    """
    result: RunResult | Comparison
    if isinstance(state, RunState):
        if state.result is None or not is_storable(state.result):
            return None
        result, flags = state.result, state.result.flags
        ended = result.ended_at or (result.time.measured_to if result.time else time.time())
    else:
        if state.comparison is None or not state.done:
            return None
        result, flags = state.comparison, state.request.flags
        if not result.pair_ratios and result.status != "failed":
            return None
        ended = max((end for _, end in result.measured), default=time.time())
    record = build_record(
        result,
        ended,
        process=process,
        sweep=sweep,
        budget=state.request.budget,
        conditions=state.conditions,
    )
    facts = collect_facts(
        machine.environment,
        machine.sample,
        machine.devices,
        find_devices(result),
        flags,
        machine.box,
    )
    return StoredResult(record, facts)


def is_storable(result: RunResult) -> bool:
    """Return whether a result is worth storing: it has a time, or it failed."""
    return result.time is not None or result.status == "failed"


def build_record(
    result: RunResult | Comparison,
    ended: float,
    *,
    process: str,
    sweep: str = "",
    budget: str = "",
    conditions: Conditions | None,
) -> Record:
    """Build the record of a run or a comparison.

    Args:
        result: what was measured.
        ended: Unix time of its end.
        process: as in :func:`build_stored_result`.
        sweep: likewise.
        budget: its measurement budget; empty if unknown.
        conditions: its conditions; ``None`` if unknown.
    """
    run = result if isinstance(result, RunResult) else None
    return Record(
        id=compute_id(result, ended),
        kind="run" if run else "comparison",
        at=ended,
        process=process,
        sweep=sweep,
        workload=result.workload,
        device=result.device,
        parameters={**result.parameters, **(run.chosen if run else {})},
        status=result.status,
        reason=result.reason,
        budget=budget,
        conditions=conditions,
        run=run,
        comparison=result if isinstance(result, Comparison) else None,
    )


def find_devices(result: RunResult | Comparison) -> tuple[str, ...]:
    """Return torch's names of the devices that worked."""
    if isinstance(result, Comparison):
        return result.devices or (result.device,)
    names = dict.fromkeys(name for span in result.spans for name in span.devices)
    return tuple(dict.fromkeys((result.device, *(name for name in names if name != CPU))))
