"""The record of the simulated devices' use by all processes that shared them."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from workloads.agent import READS

MOST_DEVICES = 8
_MAGIC = 0x73696D756C616334
_FIELDS = 7
"""Arrays of one number per device in C's ``struct record``."""


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """The use of one simulated device by all processes that shared it."""

    peak: int
    """The most bytes in use at a time, with contexts and ``base_mib``."""
    allocated: int
    """The most bytes that all processes together had allocated at a time."""
    contexts: int
    """The most processes with a context at a time."""
    nccl: int
    """The most bytes that buffers of NCCL took at a time, assumed."""
    refused: int
    """Requests for memory that the device did not have."""
    estimated: int
    """Convolutions and recurrent layers, whose workspaces are estimates."""
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
    columns = [numbers[field * MOST_DEVICES :][:MOST_DEVICES] for field in range(_FIELDS)]
    return tuple(DeviceRecord(*values) for values in zip(*columns, strict=True))
