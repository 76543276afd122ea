"""A scenario of the scripted NVML: devices, their figures, and which calls fail when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from tui.monitor.nvml import Code

MIB = 1024 * 1024

Kind = Literal["compute", "graphics", "mps"]
Crash = Literal["abort", "segv"]
_KINDS: dict[Kind, int] = {"compute": 0, "graphics": 1, "mps": 2}
_CRASHES: dict[Crash, int] = {"abort": 1, "segv": 2}


def _hex(text: str | bytes) -> str:
    return (text.encode() if isinstance(text, str) else text).hex() or "-"


@dataclass(frozen=True)
class Proc:
    """An entry of a process list; ``memory`` in bytes, ``None`` for NVML's "not available"."""

    pid: int
    memory: int | None = 512 * MIB
    kind: Kind = "compute"
    gpu_instance: int = 0xFFFFFFFF
    compute_instance: int = 0xFFFFFFFF
    sm: int | None = None
    """Percent in the driver's newest sample of it; ``None`` for no sample."""

    def lines(self) -> list[str]:
        memory = "-" if self.memory is None else str(self.memory)
        # C reads it with %d: NVML's "none" is -1.
        instances = [_signed(self.gpu_instance), _signed(self.compute_instance)]
        sm = -1 if self.sm is None else self.sm
        figures = f"{memory} {instances[0]} {instances[1]} {sm}"
        return [f"process {_KINDS[self.kind]} {self.pid} {figures}"]


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


@dataclass(frozen=True)
class Instance:
    """A MIG instance of a GPU, in one of 8 slots."""

    uuid: str
    slot: int = 0
    name: str | bytes = "NVIDIA H200 MIG 1g.18gb"
    total: int = 16_384 * MIB
    used: int = 12 * MIB
    processes: tuple[Proc, ...] = ()

    def lines(self) -> list[str]:
        return [
            f"instance {self.slot} {_hex(self.uuid)} {_hex(self.name)}",
            f"set total {self.total}",
            f"set used {self.used}",
            *(line for process in self.processes for line in process.lines()),
        ]


@dataclass(frozen=True)
class Gpu:
    """A GPU, by default an idle H200. Sizes in bytes, power in watts, clocks in MHz."""

    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    name: str | bytes = "NVIDIA H200"
    total: int = 143_771 * MIB
    used: int = 4 * MIB
    reserved: int = 615 * MIB
    free: int | None = None
    """The rest of ``total`` by default."""
    util: int = 0
    memutil: int = 0
    temperature: int = 31
    power: float = 76.5
    power_limit: float = 700.0
    sm_clock: int = 345
    memory_clock: int = 3201
    pstate: int = 0
    throttle: int = 0x1
    fan: int | None = None
    """``None``: the GPU has no fan, and the call is not supported."""
    pcie_generation: int = 5
    pcie_width: int = 16
    ecc: int | None = 0
    """``None``: not supported."""
    mig: bool = False
    bus: int = 0x18
    slowdown: int | None = 92
    """Degrees Celsius above which the clocks are lowered; ``None``: not supported."""
    margin: int | None = None
    """Degrees below that threshold; ``None``: not supported."""
    sample_age_ms: int = 0
    """Age of the processes' samples, whatever the query."""
    sent: int | None = 0
    """KB/s over the PCIe link from the device; ``None``: not supported."""
    received: int = 0
    encoder: int | None = 0
    """Percent; ``None``: not supported."""
    decoder: int | None = 0
    nvlinks: int = 18
    """All of them to switches."""
    node: int = 0
    """The NUMA node: GPUs of one share a host bridge, and 48 CPUs are near."""
    processes: tuple[Proc, ...] = ()
    instances: tuple[Instance, ...] = ()
    wobble: dict[str, int] = field(default_factory=dict)
    """Keys of the scenario file (util, used, power in mW, temp, sm …) with their amplitudes."""

    def lines(self) -> list[str]:
        figures = {
            "total": self.total,
            "used": self.used,
            "reserved": self.reserved,
            "free": self.free or 0,
            "util": self.util,
            "memutil": self.memutil,
            "temp": self.temperature,
            "power": round(self.power * 1000),
            "limit": round(self.power_limit * 1000),
            "sm": self.sm_clock,
            "mem": self.memory_clock,
            "pstate": self.pstate,
            "throttle": self.throttle,
            "fan": -1 if self.fan is None else self.fan,
            "generation": self.pcie_generation,
            "width": self.pcie_width,
            "ecc": -1 if self.ecc is None else self.ecc,
            "mig": int(self.mig),
            "bus": self.bus,
            "slowdown": -1 if self.slowdown is None else self.slowdown,
            "margin": -1 if self.margin is None else self.margin,
            "sample_age": self.sample_age_ms,
            "sent": -1 if self.sent is None else self.sent,
            "received": self.received,
            "encoder": -1 if self.encoder is None else self.encoder,
            "decoder": -1 if self.decoder is None else self.decoder,
            "nvlinks": self.nvlinks,
            "node": self.node,
        }
        return [
            f"gpu {_hex(self.uuid)} {_hex(self.name)}",
            *(f"set {key} {value}" for key, value in figures.items()),
            *(f"wobble {key} {amount}" for key, amount in self.wobble.items()),
            *(line for process in self.processes for line in process.lines()),
            *(line for instance in self.instances for line in instance.lines()),
        ]


@dataclass(frozen=True)
class Scenario:
    """A complete scenario; each method returns a new one."""

    devices: tuple[Gpu, ...] = (Gpu(),)
    driver: str = "580.159.04"
    cuda: int = 13000
    rules: tuple[str, ...] = ()

    def returns(
        self,
        function: str,
        *,
        device: int | None = None,
        code: Code | int | None = None,
        value: int | None = None,
        after_calls: int = 0,
        until_calls: int | None = None,
        after_s: float = 0,
        until_s: float | None = None,
        sleep_s: float = 0,
        hang: bool = False,
        crash: Crash | None = None,
    ) -> Scenario:
        """Set a function's answers; of several applicable rules, the first decides.

        Args:
            function: C name, such as ``nvmlDeviceGetPowerUsage`` or ``nvmlDeviceGetCount_v2``;
                ``*`` for all but init and shutdown.
            device: NVML index; ``None`` for all, and for functions about no device.
            code: NVML's return code.
            value: replaces the figure, in NVML's unit.
            after_calls: number of calls, per device, before the rule applies.
            until_calls: last call to which it applies.
            after_s: seconds since the library was loaded.
            until_s: end of the rule, likewise; ``None`` for no end.
            sleep_s: seconds that the call takes.
            hang: the call never returns.
            crash: how the process ends in that call.
        """
        parts: dict[str, int | None] = {
            "device": device,
            "code": code,
            "value": value,
            "after_calls": after_calls or None,
            "until_calls": until_calls,
            "after_ms": round(after_s * 1000) or None,
            "until_ms": None if until_s is None else round(until_s * 1000),
            "sleep_ms": round(sleep_s * 1000) or None,
            "hang": 1 if hang else None,
            "crash": _CRASHES[crash] if crash else None,
        }
        words = [f"{key}={int(part)}" for key, part in parts.items() if part is not None]
        return replace(self, rules=(*self.rules, " ".join(["rule", function, *words])))

    def with_devices(self, *devices: Gpu) -> Scenario:
        """Return the scenario with other devices."""
        return replace(self, devices=devices)

    def without_rules(self) -> Scenario:
        """Return the scenario with every call working."""
        return replace(self, rules=())

    def text(self) -> str:
        """Return the text that the C side reads."""
        return "\n".join(
            [
                f"driver {_hex(self.driver)}",
                f"cuda {self.cuda}",
                *(line for device in self.devices for line in device.lines()),
                *self.rules,
                "",
            ]
        )


def uuid(number: int) -> str:
    """Return a UUID in NVML's form, different for each number."""
    return f"GPU-{number:08x}-2222-3333-4444-555555555555"


def uneven_box() -> Scenario:
    """Return eight H200s: one throttled by its temperature, one full, two idle."""
    loads = (
        # Utilization in %, memory in GiB, degrees Celsius, watts, reason for throttling.
        (61, 20.7, 45, 310.0, 0x0),
        (95, 61.0, 70, 640.0, 0x0),
        (97, 62.0, 74, 698.0, 0x4),
        (88, 60.5, 91, 520.0, 0x60),
        (72, 60.1, 66, 505.0, 0x0),
        (0, 0.1, 31, 74.0, 0x1),
        (0, 0.1, 30, 73.0, 0x1),
        (15, 138.9, 52, 220.0, 0x0),
    )
    return Scenario(
        devices=tuple(
            Gpu(
                uuid=uuid(number),
                bus=0x18 + number,
                util=util,
                used=round(gib * 1024) * MIB,
                temperature=celsius,
                power=watt,
                throttle=throttle,
                wobble={"util": 5, "power": 20_000} if util else {},
            )
            for number, (util, gib, celsius, watt, throttle) in enumerate(loads)
        )
    )


def busy_box(devices: int = 8) -> Scenario:
    """Return a box of busy H200s with nearly every figure changing each second."""
    wobble = {"util": 35, "memutil": 20, "used": 9000 * MIB, "temp": 12, "power": 220_000, "sm": 90}
    return Scenario(
        devices=tuple(
            Gpu(
                uuid=uuid(number),
                bus=0x18 + number,
                util=60,
                memutil=30,
                used=60_000 * MIB,
                temperature=55,
                power=450.0,
                sm_clock=1830,
                throttle=0x4 if number % 2 else 0,
                processes=(Proc(pid=4_000_000 + number, memory=40_000 * MIB),),
                wobble=wobble,
            )
            for number in range(devices)
        )
    )
