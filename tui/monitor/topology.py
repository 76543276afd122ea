"""The connections between the GPUs of a machine: NVLinks, each pair's label, and peer access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import NvLink, TopologyRow
from tui.monitor.nvml import (
    Code,
    DeviceGoneError,
    NoAnswer,
    NoDriverError,
    NvmlSession,
    call,
    decode_text,
)

# nvml.h; an ABI, so no pynvml is needed to know them.
_MOST_LINKS = 18
_REMOTE_SWITCH = 2
_SCOPE_NODE = 0
_BITS = 64
_CPU_WORDS, _NODE_WORDS = 64, 4
"""Words of 64 bits to query: enough for 4096 CPUs and 256 NUMA nodes."""
ANCESTORS: Mapping[int, str] = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t in the words of ``nvidia-smi topo -m``; it has none for the first, two
GPUs on one board."""
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
class ConnectedGpu:
    """One GPU's figures for the topology."""

    id: str
    index: int
    bus_id: str | None
    fields: FieldReader


def read_nvlinks(fields: FieldReader) -> tuple[NvLink, ...] | None:
    """Return a device's NVLinks; ``None`` if the driver names none, with its reason.

    Args:
        fields: queries the device.

    Raises:
        DeviceGoneError: the device is lost.
    """
    links: list[NvLink] = []
    for number in range(_MOST_LINKS):
        name = f"nvlink.{number}"
        state = fields.query_if_due(name, ("nvmlDeviceGetNvLinkState", number))
        if isinstance(state, NoAnswer):
            if number == 0:
                # A device without NVLink refuses the question or calls the first link invalid.
                absent = state.code in (Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT)
                fields.unavailable["nvlinks"] = "the device has none" if absent else state.reason
                return None
            break
        if not state:
            links.append(NvLink(number, active=False, remote=None))
            continue
        bus = fields.query_if_due(f"{name}.remote", ("nvmlDeviceGetNvLinkRemotePciInfo", number))
        kind = fields.query_until_known(
            f"{name}.kind", ("nvmlDeviceGetNvLinkRemoteDeviceType", number)
        )
        links.append(
            NvLink(
                number,
                active=True,
                remote=None if isinstance(bus, NoAnswer) else decode_text(bus.busId),
                is_switch=not isinstance(kind, NoAnswer) and int(kind) == _REMOTE_SWITCH,
            )
        )
    return tuple(links)


def read_topology(gpus: Sequence[ConnectedGpu]) -> tuple[TopologyRow, ...]:
    """Return how all GPUs are connected, and the CPUs and the memory near each.

    Args:
        gpus: all GPUs of the machine.

    Raises:
        DeviceGoneError: one of them is lost.
    """
    links = [read_nvlinks(gpu.fields) or () for gpu in gpus]
    return tuple(
        TopologyRow(
            gpu.id,
            gpu.index,
            tuple(
                _read_label(gpu, other, own_links, other_links)
                for other, other_links in zip(gpus, links)
            ),
            _read_set(gpu.fields, "cpus", "nvmlDeviceGetCpuAffinity", _CPU_WORDS),
            _read_set(
                gpu.fields, "memory nodes", "nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE
            ),
        )
        for gpu, own_links in zip(gpus, links)
    )


def _read_label(
    gpu: ConnectedGpu, other: ConnectedGpu, own: Sequence[NvLink], others: Sequence[NvLink]
) -> str | None:
    """Return the connection of two GPUs in the words of ``nvidia-smi topo -m``."""
    if other is gpu:
        return "X"
    count = count_nvlinks(own, others, other.bus_id)
    if count:
        return f"NV{count}"
    answer = gpu.fields.query(
        f"ancestor.{other.index}", ("nvmlDeviceGetTopologyCommonAncestor", other.fields.handle)
    )
    return None if isinstance(answer, NoAnswer) else ANCESTORS.get(int(answer), f"level {answer}")


def count_nvlinks(own: Sequence[NvLink], others: Sequence[NvLink], bus_id: str | None) -> int:
    """Count the active NVLinks between two GPUs, direct ones or those to the same switches.

    Args:
        own: of the first GPU.
        others: of the second.
        bus_id: the second GPU's.
    """
    direct = sum(link.active and bus_id is not None and link.remote == bus_id for link in own)
    switched = (sum(link.active and link.is_switch for link in links) for links in (own, others))
    return direct or min(switched)


def _read_set(
    fields: FieldReader, name: str, function: str, words: int, *more: int
) -> tuple[int, ...] | None:
    answer = fields.query(name, (function, words, *more))
    return None if isinstance(answer, NoAnswer) else members_of(answer)


def members_of(words: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the bits that are set, in words of 64 bits, the lowest first."""
    return tuple(
        place * _BITS + bit
        for place, word in enumerate(words)
        for bit in range(_BITS)
        if int(word) & (1 << bit)
    )


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
    handle = call(session.nvml, "nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, NoAnswer):
        raise NoDriverError(f"NVML does not give GPU {index}: {handle.reason}")
    fields = FieldReader(session.nvml, handle, lambda: None)
    fields.start_reading(slow_due=True)
    uuid = fields.query("uuid", ("nvmlDeviceGetUUID",))
    pci = fields.query("pci", ("nvmlDeviceGetPciInfo",))
    return ConnectedGpu(
        f"nvml:{index}" if isinstance(uuid, NoAnswer) else decode_text(uuid),
        index,
        None if isinstance(pci, NoAnswer) else decode_text(pci.busId),
        fields,
    )


def _read_p2p(session: NvmlSession, first: ConnectedGpu, other: ConnectedGpu) -> str | None:
    if first is other:
        return None
    handles = (first.fields.handle, other.fields.handle)
    answer = call(session.nvml, "nvmlDeviceGetP2PStatus", *handles, _P2P_READ)
    return None if isinstance(answer, NoAnswer) else _P2P.get(int(answer))
