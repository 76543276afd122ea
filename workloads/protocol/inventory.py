"""What there is to run, to switch and to run on, as it is told from process to process.

Sizes are bytes. A field that may be absent is ``None``, and the ``unavailable`` map beside it holds
the reason under the field's dotted path.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Union

from workloads.protocol.frozen import frozen

Setting = Union[bool, int, float, str]
"""A value of a parameter or of a flag."""

Need = Literal["2 GPUs", "a C++ compiler", "Triton", "torch.distributed"]
"""``2 GPUs`` that torch sees; the compiler that torch.compile calls on the CPU; Triton, which it
needs on a GPU; ``torch.distributed``, which some builds leave out."""


@frozen
class ParameterInfo:
    """One parameter of a workload: its default and what it may be set to."""

    name: str
    default: Setting
    about: str
    choices: tuple[Setting, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    auto: bool = False
    """0 leaves the number to the workload; people see and type ``auto``."""
    form: str = ""
    """Of a text: a regular expression that it must match in full."""
    form_about: str = ""
    """The same in words."""


@frozen
class WorkloadInfo:
    """What can be said of a workload without torch."""

    name: str
    group: str
    title: str
    about: str
    look_for: str
    parameters: tuple[ParameterInfo, ...]
    devices: tuple[str, ...]
    """Device types it runs on: cpu, cuda, mps."""
    needs: tuple[Need, ...] = ()
    """What it needs beside torch and a device."""
    compared: bool = False
    """A switch of a backend flag compares it at once; others are compared when asked for."""
    ranks: bool = False
    """It runs in several processes that torchrun starts."""
    fresh_process: bool = False
    """Each run gets a process that has run nothing else: it shows what happens the first time."""
    code: str = ""
    """The lines that are timed, read from the source; empty before they are read."""


@frozen
class FlagInfo:
    """A switch of a torch backend."""

    name: str
    """As on the command line: ``cudnn.benchmark``."""
    title: str
    about: str
    device_types: tuple[str, ...]
    fresh_process: bool
    """Takes effect only in a process that has not run the operation yet."""
    default: bool
    unavailable: str | None
    """Why it has no effect here; ``None`` where it has."""


@frozen
class TorchDevice:
    """A device as torch numbers it."""

    id: str
    """``cuda:0``, ``mps`` or ``cpu``."""
    name: str
    uuid: str | None = None
    """NVML's form, ``GPU-…``, so that the two can be paired."""
    pci_bus_id: str | None = None
    total_memory: int | None = None
    capability: str | None = None
    multi_processors: int | None = None
    clock_hz: float | None = None
    """The highest clock of the multiprocessors."""
    l2_bytes: int | None = None
    memory_clock_hz: float | None = None
    """The highest; data goes over at both edges."""
    memory_bus_bits: int | None = None


@frozen
class Environment:
    """What a figure depends on besides the device: the runner's Python, torch and threads."""

    python: str
    executable: str
    torch: str
    cuda: str | None
    cudnn: str | None
    cpu: str
    cpus_usable: int
    threads: int
    interop_threads: int
    malloc: str
    variables: dict[str, str]
    """Environment variables that change timings, as found set."""
    devices: tuple[TorchDevice, ...]
    flags: tuple[FlagInfo, ...]
    unavailable: dict[str, str] = field(default_factory=dict)
