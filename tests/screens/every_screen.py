"""Every screen with content: eight GPUs of different loads, results of all kinds.

``docs/pictures.py --all FOLDER`` draws them. The figures are invented, times are relative to
:data:`tests.screens.helpers.NOW`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tests.results.samples import BEGAN, kept
from tests.screens import watched
from tests.screens.helpers import (
    GIB,
    MIB,
    NOW,
    STRANGER,
    WORKER,
    environment,
    gpu,
    gpu_process,
    hello,
    host,
    host_heap,
    sample,
    torch_gpu,
    torch_memory,
    uuid,
)
from tests.screens.results import compared, progress, result, timing
from tui.core.state_folder import imported_catalogue
from tui.monitor.messages import (
    Cpu,
    Device,
    DeviceMemory,
    GpuProcess,
    HostMemory,
    ParentProcess,
    Sample,
    Utilization,
)
from tui.recordings import DEMO_SNAPSHOT, lines
from tui.recordings.lines import AnyEvent
from tui.results.store.records import StoredResult
from tui.runs.state.events import EarlierRead, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep
from tui.runs.state.runs import EarlierResult
from tui.watch.state.run import WatchedRun
from workloads.protocol import messages
from workloads.protocol.results import (
    Basis,
    Limit,
    PeakMemory,
    Rates,
    RunResult,
    Setting,
)

RECORDINGS = Path(lines.__file__).parent
SNAPSHOT = RECORDINGS / DEMO_SNAPSHOT
PAST_S = 240
GPUS = 8
LAUNCHER = ParentProcess(9000, "ada", "torchrun --nproc-per-node 4 train.py", NOW - 4000)
LOADS: tuple[tuple[float, float, float, float, tuple[str, ...]], ...] = (
    (61, 20.7, 45, 310, ()),
    (95, 61.0, 70, 640, ()),
    (97, 62.0, 74, 698, ("sw_power_cap",)),
    (88, 60.5, 93, 520, ("hw_thermal_slowdown", "sw_thermal_slowdown")),
    (72, 60.1, 66, 505, ()),
    (0, 0.004, 31, 74, ("idle",)),
    (0, 0.004, 30, 73, ("idle",)),
    (15, 138.9, 52, 220, ()),
)
"""For each GPU: utilization in %, memory in GiB, temperature in °C, power in W, throttle reason."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One screen, and the steps to reach it."""

    events: tuple[AnyEvent, ...]
    keys: tuple[str, ...] = ()
    workload: str = ""
    """The row under the cursor."""
    snapshot: Path | None = None
    kept: tuple[StoredResult, ...] = ()
    """Contents of the store of results."""
    watched: WatchedRun | None = None
    """The run open in the watch tab; without one, the tab shows the stored runs."""


# ---- devices ----


def device(index: int, seconds: float, busy: bool = True) -> Device:
    """Return one of the eight GPUs, some seconds after an arbitrary moment."""
    percent, used_gib, celsius, watt, slowed = LOADS[index if busy else 5]
    wave = math.sin(seconds / 9 + index) if percent else 0.0
    total, reserved = int(139.8 * GIB), int(0.6 * GIB)
    used = int(used_gib * GIB)
    return gpu(
        index,
        utilization=Utilization(min(100.0, max(0.0, percent + 8 * wave)), 10.0),
        memory=DeviceMemory(total, used, total - used - reserved, reserved),
        temperature_c=celsius,
        power_w=watt + 20 * wave,
        throttle=slowed,
        slowdown_c=93.0,
        processes=tuple(_processes(index)) if busy else (),
    )


def _processes(index: int) -> Iterator[GpuProcess]:
    if index == 0:
        yield gpu_process(
            command="python -m workloads",
            started_at=NOW - 900,
            cpu_percent=98.0,
            sm_percent=58.0,
            host_memory=int(2.1 * GIB),
        )
        yield gpu_process(
            STRANGER,
            int(4.1 * GIB),
            command="python train.py --lr 1e-3",
            started_at=NOW - 125,
            cpu_percent=101.0,
            sm_percent=11.0,
            host_memory=int(1.4 * GIB),
        )
    if index in range(1, 5):
        yield gpu_process(
            9000 + index,
            int(60 * GIB),
            command=f"python train.py --rank {index - 1}",
            started_at=NOW - 3990,
            sm_percent=88.0 - index,
            cpu_percent=101.0,
            host_memory=int(4.2 * GIB),
            parent=LAUNCHER,
        )
    if index == GPUS - 1:
        yield gpu_process(
            7777,
            int(138 * GIB),
            user="bob",
            command="vllm serve llama",
            sm_percent=12.0,
            cpu_percent=230.0,
            host_memory=30 * GIB,
            started_at=NOW - 90_000,
        )


BOX = host(
    cpu=Cpu("AMD EPYC 9654 96-Core Processor", 192, 64, 23.0, 2400.0),
    memory=HostMemory(512 * GIB, 71 * GIB, 441 * GIB),
)
"""The host of the eight GPUs, with room for their processes."""


def samples(busy: bool = True, seconds: int = PAST_S) -> tuple[Sample, ...]:
    """Return the last minutes of all eight, with a gap without samples."""
    gpus = range(GPUS)
    return tuple(
        sample(*(device(index, at, busy) for index in gpus), host=BOX, at=NOW - seconds + at + 1)
        for at in range(seconds)
        if not 100 < at < 112
    )


def without_runner(seen: Sample) -> Sample:
    """Return a sample in which the runner has not started, with its memory free."""
    devices = []
    for each in seen.devices:
        runner = [row for row in each.processes or () if row.pid == WORKER]
        freed = sum(row.memory or 0 for row in runner)
        memory = each.memory
        devices.append(
            replace(
                each,
                processes=tuple(row for row in each.processes or () if row not in runner),
                memory=replace(
                    memory, used=(memory.used or 0) - freed, free=(memory.free or 0) + freed
                ),
            )
        )
    return replace(seen, devices=tuple(devices), watched=())


def samples_without_gpus(seconds: int = PAST_S) -> tuple[Sample, ...]:
    """Return the last minutes of a host without an NVIDIA driver."""
    return tuple(
        sample(at=NOW - seconds + at + 1, host=host(cpu=_cpu(at))) for at in range(seconds)
    )


def _cpu(seconds: float) -> Cpu:
    load = 23.0 + 14 * math.sin(seconds / 11) * math.sin(seconds / 37)
    return replace(host().cpu, load_percent=load)


# ---- results ----


CATALOGUE = imported_catalogue()
"""The program's own workloads."""


def defaults(workload: str) -> dict[str, Setting]:
    """Return its parameters at their defaults."""
    info = next(info for info in CATALOGUE if info.name == workload)
    return {each.name: each.default for each in info.parameters}


def ran(workload: str, on: str, seconds: float, **changes: object) -> tuple[AnyEvent, ...]:
    """Return a run and its result."""
    number = f"{workload} {on} {changes.get('parameters', '')}"
    fields = {"id": number, "parameters": defaults(workload), **changes}
    done: RunResult = result(workload, on, seconds, **fields)
    request = messages.Run(number, workload, on, done.parameters, done.flags)
    return RunQueued(request), messages.Finished(done)


def computed(on: str, seconds: float, flop: float, byte: float) -> dict[str, Limit | Rates]:
    """Return the limit and the rates of a float32 computation."""
    gpu = on != "cpu"
    peak, basis = PEAKS[gpu]
    limit = Limit("float32", peak, flop / seconds / peak, basis)
    return {"limit": limit, "rates": Rates(flop / seconds, byte / seconds, None)}


PEAKS: tuple[tuple[float, Basis], ...] = ((1.9e12, "measured"), (67e12, "published"))
"""FLOP/s in float32 of the CPU and of a GPU."""


def product(n: int, on: str) -> tuple[AnyEvent, ...]:
    """Return a float32 product of n x n matrices, on a GPU with a launch time of 8 µs."""
    flop, byte = 2 * n**3, 12 * n**2
    gpu = on != "cpu"
    seconds = flop / (51e12 if gpu else 1.3e12) + (8e-6 if gpu else 3e-7)
    parameters = {**defaults("matmul"), "n": n}
    memory = PeakMemory(byte, byte * 2, None)
    blocks = tuple(seconds * (1 + 0.01 * math.sin(7 * at)) for at in range(42))
    time = timing(seconds, block_times_s=blocks)
    return ran(
        "matmul", on, seconds, time=time, memory=memory, parameters=parameters,
        **computed(on, seconds, flop, byte),
    )  # fmt: skip


LINK = Limit("one-way PCIe", 63e9, 0, "PCIe 5.0 x16")
BANDWIDTH = Limit("memory bandwidth", 4.8e12, 0, "NVIDIA H200")


def copied(
    name: str, on: str, seconds: float, byte: int, limit: Limit | None
) -> tuple[AnyEvent, ...]:
    """Return a run that moved ``byte`` bytes in a call; ``limit`` gets the share of its rate."""
    rate = byte / seconds
    if limit is not None:
        limit = replace(limit, fraction=rate / limit.value)
    memory, rates = PeakMemory(byte, 2 * byte, None), Rates(None, rate, None)
    return ran(
        name, on, seconds, limit=limit, rates=rates, memory=memory, parameters=defaults(name)
    )


def sweep() -> tuple[AnyEvent, ...]:
    """Return ``matmul`` over n on the CPU and on the first GPU, which becomes faster."""
    sizes = [2**power for power in range(4, 14)]
    points = tuple({**defaults("matmul"), "n": n} for n in sizes)
    runs = chain.from_iterable(product(n, on) for on in ("cpu", "cuda:0") for n in sizes)
    return SweepSet("matmul", Sweep({"n": "16..8192x2"}, points)), *runs


def results() -> tuple[AnyEvent, ...]:
    """Return runs that succeeded, failed, wait and continue, and a comparison."""
    cnn = "cnn_training"
    error = "CUDA error: uncorrectable ECC error encountered"
    no_rates = Rates(None, None, None)
    nothing: dict[str, object] = {
        "status": "failed", "time": None, "limit": None, "check": None, "rates": no_rates,
    }  # fmt: skip
    waiting = messages.Run("waits", "tf32", "cuda:0", defaults("tf32"), {})
    going = messages.Run("goes on", "conv2d", "cuda:0", defaults("conv2d"), {})
    return (
        # The CPU reads and writes each byte of both copies.
        *copied("transfer", "cpu", 6.7e-3, 4 * 64 * MIB, None),
        *copied("transfer", "cuda:0", 2.4e-3, 2 * 64 * MIB, LINK),
        *copied("device_copy", "cpu", 9.4e-3, 256 * MIB, None),
        *copied("device_copy", "cuda:0", 0.32e-3, 1024 * MIB, BANDWIDTH),
        *ran(cnn, "cpu", 0.0191, **computed("cpu", 0.0191, 2.1e10, 3e8)),
        *ran(cnn, "cuda:0", 0.00077, **computed("cuda:0", 0.00077, 2.1e10, 3e8)),
        *product(2048, "cpu"),
        *product(2048, "cuda:0"),
        *ran("tf32", "cpu", 1.07e-3, **computed("cpu", 1.07e-3, 1.4e9, 6e6)),
        *ran("copy_sizes", "cuda:0", 1e-3, reason=error, **nothing),
        *compared(parameters=defaults("conv2d")),
        RunQueued(going),
        RunQueued(waiting),
        progress("conv2d", "cuda:0", id="goes on", estimate_s=0.409e-3),
    )


DAY_S = 86_400
KEPT = {
    "transfer": 2.4e-3,
    "device_copy": 0.32e-3,
    "matmul": 0.367e-3,
    "tf32": 0.121e-3,
    "conv2d": 0.382e-3,
    "cnn_training": 0.77e-3,
    "attention": 0.094e-3,
}
"""Workloads with results of earlier sessions, and their times under the old driver in seconds."""


def kept_results() -> tuple[StoredResult, ...]:
    """Return five sessions under one driver, and five under the next with changed times."""
    rng = random.Random(7)
    found = []
    for session, (place, workload) in itertools.product(range(10), enumerate(KEPT)):
        new = session >= 5
        factor = {"matmul": 0.94, "conv2d": 1.08}.get(workload, 1.0) if new else 1.0
        facts = {"box": "gpu-box-3", "gpu uuid": uuid(0)}
        facts["driver"] = "580.159.03" if new else "570.86.15"
        hot = ("throttled: sw_thermal_slowdown",) if (session, workload) == (7, "tf32") else ()
        found.append(
            kept(
                int(NOW - BEGAN - 1000 - (20 - 2 * session) * DAY_S + 60 * place),
                workload=workload,
                median=KEPT[workload] * factor * rng.lognormvariate(0, 0.007),
                parameters=defaults(workload),
                facts=facts,
                process=f"session{session}-1",
                warnings=hot,
                tags=("before-upgrade",) if session == 4 else (),
            )
        )
    return tuple(found)


def earlier_results() -> EarlierRead:
    """Return the newest of them, as the workbench shows it."""
    newest = {one.record.workload: one for one in kept_results()}
    return EarlierRead(
        NOW,
        tuple(
            EarlierResult(
                workload=name,
                gpu=uuid(0),
                requested=one.record.parameters,
                used=one.record.parameters,
                at=one.record.at,
                median_s=one.record.median_s or 0.0,
                ci95_s=one.record.ci95_s,
                driver=one.facts.values["driver"],
                torch=one.facts.values["torch"],
            )
            for name, one in newest.items()
        ),
    )


def started(*now: Sample) -> tuple[AnyEvent, ...]:
    """Return a ready runner's store, with samples of the devices and of its memory."""
    gpus = len(now[-1].devices)
    return (
        now[0],
        hello(*CATALOGUE),
        messages.Ready(environment(*(torch_gpu(index) for index in range(gpus))), 1.8),
        messages.WorkerStarted(WORKER),
        *(
            event
            for each in now
            for event in (*((torch_memory(at=each.at),) if gpus else ()), each)
        ),
        host_heap(),
        now[-1],
    )


NO_TORCH = messages.Unusable(
    "there is no torch in /opt/bare/bin/python",
    "use another environment's torch: gpu-workbench --python PATH; or install it:"
    " /opt/bare/bin/python -m pip install torch",
)


def busy_scene_events() -> tuple[AnyEvent, ...]:
    """Return eight GPUs of different loads, and runs of all kinds."""
    return (*started(*samples()), *results())


def scenes() -> dict[str, Scene]:
    """Return all screens by name."""
    # Nothing is allocated yet: the GPU's memory could not hold what torch_memory() says.
    idle = tuple(
        event
        for event in started(*samples(busy=False))
        if not isinstance(event, messages.TorchMemory)
    )
    busy = busy_scene_events()
    swept = (*started(*samples()), *results(), *sweep())
    found = {
        "first": Scene((*samples(busy=False, seconds=100), hello(*CATALOGUE))),
        "idle": Scene(idle),
        "busy": Scene(busy),
        "by-load": Scene(busy, ("v", "s")),
        "no-driver": Scene(started(*samples_without_gpus())),
        "no-torch": Scene(
            (*map(without_runner, samples(seconds=100)), hello(*CATALOGUE), NO_TORCH)
        ),
        "measured": Scene(busy, ("i",), "matmul"),
        "sweep": Scene(swept, ("i",), "matmul"),
        "swept": Scene(swept, (), "matmul"),
        "roofline": Scene(swept, ("O",), "matmul"),
        "group": Scene(busy, ("i",), "transfer/"),
        "comparison": Scene(busy, ("F",)),
        "memory": Scene(busy, ("2",)),
        "processes": Scene(busy, ("4",)),
        "present": Scene(busy, ("D",), "matmul"),
        "help": Scene(busy, ("question_mark",)),
        "parameters": Scene(busy, ("equals_sign",), "matmul"),
        "confirm": Scene(busy, ("R",)),
        "palette": Scene(busy, ("colon", *"snap")),
        "filter": Scene(busy, ("slash", *"copy")),
        "log": Scene(busy, ("l",)),
        "earlier": Scene((*idle, earlier_results()), (), "matmul"),
        "results-none": Scene(busy, ("6",)),
    }
    past = kept_results()
    views_of_results = {
        "list": (),
        "compared": ("end", "space", "home", "space", "c"),
        "past": ("down", "down", "enter"),
        "tag": ("space", "number_sign"),
        "delete": ("delete",),
    }
    for name, keys in views_of_results.items():
        found[f"results-{name}"] = Scene(busy, ("6", *keys), kept=past)
    views = {
        "verdict": ("W",),
        "timeline": ("L",),
        "sites": ("a",),
        "flame": ("f", "down", "down"),
        "map": ("B",),
    }
    for name, keys in views.items():
        found[f"snapshot-{name}"] = Scene(busy, keys, snapshot=SNAPSHOT)
    found["snapshot-none"] = Scene(busy, ("3",))
    two = watched.watched(watched.device(), watched.unread())
    over = watched.watched(watched.ran_out(), watched.unread(), output=watched.failing_output())
    found["watch-kept"] = Scene(busy, ("5",))
    found["watch-run"] = Scene(busy, (), watched=two)
    found["watch-cpu"] = Scene(busy, (), watched=watched.watched(watched.on_cpu()))
    found["watch-oom"] = Scene(busy, (), watched=over)
    found["watch-output"] = Scene(busy, ("l",), watched=two)
    found["watch-end"] = Scene(busy, ("x",), watched=two)
    return found
