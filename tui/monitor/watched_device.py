"""Reading of the costly figures of one device: its PCIe traffic, and on request its details."""

from __future__ import annotations

from collections.abc import Sequence

from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import DeviceDetail, PcieTraffic, TopologyRow
from tui.monitor.topology import ConnectedGpu, read_nvlinks, read_topology

# nvml.h; an ABI, so no pynvml is needed to know them.
_SENT, _RECEIVED = 0, 1
KILOBYTE = 1000
"""NVML gives KB/s without saying how many bytes it counts as one."""


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
