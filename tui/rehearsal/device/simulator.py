"""The simulated GPU of this environment: its availability, its libraries, its configuration.

It needs a separate environment, in which torch's CUDA build is installed without the ``nvidia-*``
packages that it requires; the simulator's libraries take their place. With the packages, nothing is
simulated. ``.ci/run`` makes such an environment.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tui.rehearsal.device import build
from workloads.agent import READS
from workloads.protocol.wire import field_values

HEADERS = Path(sys.prefix) / "cuda-headers" / "nvidia" / "cu13" / "include"
"""Headers from the packages nvidia-cuda-runtime and nvidia-cuda-crt, installed by ``.ci/run``."""

PREFIX = "SIMULATED_GPU_"


@dataclass(frozen=True)
class Settings:
    """The configuration; field ``name`` is the environment variable ``SIMULATED_GPU_NAME``.

    The first process that uses a state file reads the first block; each process reads the rest.
    """

    devices: int = 2
    total_mib: int = 8192
    """The memory of each device, including the driver's part."""
    reserved_mib: int = 615
    """The driver's part: NVML's ``reserved``."""
    base_mib: int = 4
    """Bytes in use without any process."""
    mig: int = 0
    """1 or more: number of MIG instances on one GPU."""

    context_mib: int = 500
    context_ms: int = 150
    link_gb_s: int = 4
    memory_gb_s: int = 4000
    convolution_ns: int = 300_000
    name: str = "NVIDIA H200 (simulated)"
    capability: int = 90
    """Compute capability, times ten."""
    sm_count: int = 132
    sm_threads: int = 2048
    """Most threads of a multiprocessor."""
    block_kib: int = 227
    """Most shared memory of a block."""
    l2_mib: int = 50
    fail_allocation: str = ""
    """``N:CODE``: the Nth request for device memory and the two after it fail with that CUDA error.

    torch tries that often before it gives up. Any text may follow, which makes the same fault a
    different one: each occurs once.
    """
    fail_launch: str = ""
    """``N:CODE``: the Nth piece of work fails for good with that CUDA error; 0: it never ends."""

    def variables(self, state: Path) -> dict[str, str]:
        """Return the environment of the processes that share these devices.

        Args:
            state: the file of their shared state; it keeps the first configuration it receives.
        """
        values = {name.upper(): str(value) for name, value in field_values(self).items()}
        return {
            **{PREFIX + name: value for name, value in values.items() if value},
            PREFIX + "STATE": str(state),
        }


MOST_DEVICES = 8
_MAGIC = 0x73696D756C616332
_FIELDS = 5
"""Arrays of one number per device in C's ``struct record``."""


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """What the processes that shared a simulated device did with it, from the first on."""

    peak: int
    """The most bytes in use at a time, with contexts and ``base_mib``."""
    allocated: int
    """The most bytes that all processes together had allocated at a time."""
    contexts: int
    """The most processes with a context at a time."""
    refused: int
    """Requests for memory that the device did not have."""
    reads: int
    """Copies of device memory to the host."""


def reads_variables(state: Path) -> dict[str, str]:
    """Return the variable that tells an agent where copies to the host are counted.

    Args:
        state: the file of the shared state.
    """
    offset = 8 * (1 + (_FIELDS - 1) * MOST_DEVICES)
    return {READS: json.dumps([str(state), offset, MOST_DEVICES])}


def read_records(state: Path) -> tuple[DeviceRecord, ...]:
    """Return the record of each device, in order; empty if no process has used CUDA.

    Args:
        state: the file of the shared state, as given to :meth:`Settings.variables`.

    Raises:
        OSError: the file cannot be read.
        ValueError: another version of the simulator wrote the file.
    """
    layout = struct.Struct(f"={1 + _FIELDS * MOST_DEVICES}Q")
    try:
        with state.open("rb") as file:
            data = file.read(layout.size)
    except FileNotFoundError:
        return ()
    if not data:
        return ()
    if len(data) < layout.size:
        raise ValueError(f"{state} is incomplete")
    magic, *numbers = layout.unpack(data)
    if magic != _MAGIC:
        raise ValueError(f"{state} is of another version of the simulator")
    columns = [numbers[each * MOST_DEVICES :][:MOST_DEVICES] for each in range(_FIELDS)]
    return tuple(DeviceRecord(*values) for values in zip(*columns, strict=True))


def state_folder() -> Path:
    """Return the folder of state files, in memory if possible: each allocation writes there."""
    shared_memory = Path("/dev/shm")
    return shared_memory if shared_memory.is_dir() else Path(tempfile.gettempdir())


def libraries() -> Path | None:
    """Return the folder of the simulator's libraries; ``None`` with CUDA's own or no CUDA build.

    Builds them first if they are missing or older than their sources.

    Raises:
        build.CannotBuildError: the text names the missing part and how to get it.
    """
    try:
        torch = build.folder_of_torch()
    except build.CannotBuildError:
        return None
    folder = torch.parent / "nvidia" / "cu13" / "lib"
    stamp = folder / "simulated"
    if not (torch / "lib" / "libtorch_cuda.so").exists():
        return None
    if (folder / "libcudart.so.13").exists() and not stamp.exists():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "simulated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        expected = build.fingerprint(torch)
        if not stamp.exists() or stamp.read_text(encoding="ascii") != expected:
            stamp.write_text("being built", encoding="ascii")
            build.build(torch, HEADERS, folder)
            stamp.write_text(expected, encoding="ascii")
    return folder


def environment(libraries: Path, settings: Settings, state: Path) -> dict[str, str]:
    """Return this process's environment with a child's settings for the simulated GPU."""
    others = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        **settings.variables(state),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(libraries), others])),
    }
