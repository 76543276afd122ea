"""Reading of the costly figures of one device: its PCIe traffic, and on request its details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import DeviceDetail, NvLink, PcieTraffic, TopologyRow
from tui.monitor.nvml import Code, NoAnswer

# nvml.h; an ABI, so no pynvml is needed to know them.
_SENT, _RECEIVED = 0, 1
_MOST_LINKS = 18
_REMOTE_SWITCH = 2
_SCOPE_NODE = 0
_BITS = 64
_CPU_WORDS, _NODE_WORDS = 64, 4
"""Words of 64 bits to query: enough for 4096 CPUs and 256 NUMA nodes."""

ANCESTORS: Mapping[int, str] = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t in the words of ``nvidia-smi topo -m``; it has none for the first, two
GPUs on one board."""
KILOBYTE = 1000
"""NVML gives KB/s without saying how many bytes it counts as one."""


@dataclass(frozen=True)
class ConnectedGpu:
    """One GPU's figures for the topology."""

    id: str
    index: int
    bus_id: str | None
    fields: FieldReader


class WatchedDeviceReader:
    """Reader of the figures of one device that are not read of all devices."""

    def __init__(self, fields: FieldReader, id: str) -> None:  # noqa: A002 (the messages' name)
        """Bind to a device.

        Args:
            fields: queries the device, and serves no other reader.
            id: the device's.
        """
        self._fields = fields
        self._id = id
        self._topology: tuple[TopologyRow, ...] | None = None

    def read_traffic(self) -> PcieTraffic:
        """Read how much crosses the PCIe link; takes 20 ms for each direction.

        Raises:
            DeviceGoneError: the device is lost.
        """
        self._fields.start_reading(slow_due=False)
        return PcieTraffic(
            self._id,
            self._read_bytes("sent", _SENT),
            self._read_bytes("received", _RECEIVED),
            self._fields.unavailable,
        )

    def _read_bytes(self, path: str, counter: int) -> int | None:
        answer = self._fields.query(path, ("nvmlDeviceGetPcieThroughput", counter))
        kilobytes = self._fields.parse_number(path, answer)
        return None if kilobytes is None else kilobytes * KILOBYTE

    def read_detail(self, gpus: Sequence[ConnectedGpu], slow: bool) -> DeviceDetail:
        """Read the details.

        Args:
            gpus: all GPUs of the machine, for the topology.
            slow: query slowly changing figures again.

        Raises:
            DeviceGoneError: the device is lost.
        """
        fields = self._fields
        fields.start_reading(slow)
        ecc = fields.query_if_due("ecc", ("nvmlDeviceGetEccMode",))
        if self._topology is None or len(self._topology) != len(gpus):
            self._topology = read_topology(gpus)
        return DeviceDetail(
            id=self._id,
            ecc=None if fields.note_missing("ecc", ecc) else bool(ecc[0]),
            encoder_percent=self._read_busy("encoder_percent", "nvmlDeviceGetEncoderUtilization"),
            decoder_percent=self._read_busy("decoder_percent", "nvmlDeviceGetDecoderUtilization"),
            nvlinks=read_nvlinks(fields),
            topology=self._topology,
            unavailable=fields.unavailable,
            **fields.read_figures(DeviceDetail),
        )

    def _read_busy(self, path: str, function: str) -> float | None:
        answer = self._fields.query(path, (function,))
        if self._fields.note_missing(path, answer):
            return None
        return self._fields.parse_percent(path, answer[0])


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
                remote=None if isinstance(bus, NoAnswer) else _parse_bus_id(bus.busId),
                is_switch=not isinstance(kind, NoAnswer) and int(kind) == _REMOTE_SWITCH,
            )
        )
    return tuple(links)


def _parse_bus_id(bus_id: str | bytes) -> str:
    return bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id


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
                "X"
                if other is gpu
                else name_nvlinks(count_nvlinks(links[row], links[column], other.bus_id))
                or _read_ancestor(gpu, other)
                for column, other in enumerate(gpus)
            ),
            _read_set(gpu.fields, "cpus", "nvmlDeviceGetCpuAffinity", _CPU_WORDS),
            _read_set(
                gpu.fields, "memory nodes", "nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE
            ),
        )
        for row, gpu in enumerate(gpus)
    )


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


def name_nvlinks(count: int) -> str | None:
    """Return nvidia-smi's word for that many NVLinks; ``None`` for none."""
    return f"NV{count}" if count else None


def _read_ancestor(gpu: ConnectedGpu, other: ConnectedGpu) -> str | None:
    answer = gpu.fields.query(
        f"ancestor.{other.index}", ("nvmlDeviceGetTopologyCommonAncestor", other.fields.handle)
    )
    return None if isinstance(answer, NoAnswer) else ANCESTORS.get(int(answer), f"level {answer}")


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
