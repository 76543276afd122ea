"""How the GPUs of a machine are connected, read once: each pair's label, and peer access."""

from __future__ import annotations

from dataclasses import dataclass

from tui.monitor import nvml as driver
from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import TopologyRow
from tui.monitor.nvml import DeviceGoneError, NoAnswer, NoDriverError, NvmlSession
from tui.monitor.watched_device import ConnectedGpu, read_topology

P2P_ALLOWED = "yes"
_P2P_READ = 0
"""``NVML_P2P_CAPS_INDEX_READ`` (nvml.h)."""
_P2P = {
    0: P2P_ALLOWED,
    1: "not supported by the chipset",
    2: "not supported by the GPU",
    3: "not supported by this topology",
    4: "disabled by a registry key of the driver",
    5: "not supported",
}
"""``nvmlGpuP2PStatus_t`` (nvml.h)."""


@dataclass(frozen=True)
class GpuTopology:
    """Event: how all GPUs of a machine are connected, or why that is unknown."""

    rows: tuple[TopologyRow, ...]
    p2p: tuple[tuple[str | None, ...], ...]
    """By row and column: ``yes`` where the first may read the second's memory, otherwise why not;
    ``None`` if the driver does not say, and for a GPU itself."""
    reason: str = ""


def read_gpu_topology() -> GpuTopology:
    """Return how all GPUs of this machine are connected."""
    try:
        session = NvmlSession.start(lambda: None)
    except NoDriverError as error:
        return GpuTopology((), (), str(error))
    try:
        gpus = [_connect(session, index) for index in range(session.count_devices())]
        return GpuTopology(
            read_topology(gpus),
            tuple(tuple(_read_p2p(session, gpu, other) for other in gpus) for gpu in gpus),
        )
    except (NoDriverError, DeviceGoneError) as error:
        return GpuTopology((), (), str(error))
    finally:
        session.shut_down()


def _connect(session: NvmlSession, index: int) -> ConnectedGpu:
    """Return a GPU with its figures for the topology.

    Raises:
        NoDriverError: NVML does not give it.
        DeviceGoneError: it is lost.
    """
    handle = driver.call(session.nvml, "nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, NoAnswer):
        raise NoDriverError(f"NVML does not give GPU {index}: {handle.reason}")
    fields = FieldReader(session.nvml, handle, lambda: None)
    fields.start_reading(slow_due=True)
    uuid = fields.query("uuid", ("nvmlDeviceGetUUID",))
    pci = fields.query("pci", ("nvmlDeviceGetPciInfo",))
    return ConnectedGpu(
        f"nvml:{index}" if isinstance(uuid, NoAnswer) else _decode(uuid),
        index,
        None if isinstance(pci, NoAnswer) else _decode(pci.busId),
        fields,
    )


def _read_p2p(session: NvmlSession, first: ConnectedGpu, other: ConnectedGpu) -> str | None:
    if first is other:
        return None
    handles = (first.fields.handle, other.fields.handle)
    answer = driver.call(session.nvml, "nvmlDeviceGetP2PStatus", *handles, _P2P_READ)
    return None if isinstance(answer, NoAnswer) else _P2P.get(int(answer))


def _decode(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
