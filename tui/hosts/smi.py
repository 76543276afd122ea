"""The GPUs of a host without Python, as ``nvidia-smi`` prints them; a sample from its lines."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tui.monitor.messages import (
    Clocks,
    Cpu,
    Device,
    DeviceMemory,
    Driver,
    Host,
    HostMemory,
    Pcie,
    Sample,
    Utilization,
)

T = TypeVar("T", int, float)

HELLO = "gpu-workbench nvidia-smi 1"
"""Printed before the first figures; what comes before is the login's banner."""
NO_SMI = "no nvidia-smi"
QUERY = (
    *("count", "index", "uuid", "name", "pci.bus_id", "driver_version"),
    *("memory.total", "memory.used", "memory.free", "utilization.gpu", "utilization.memory"),
    *("temperature.gpu", "power.draw", "power.limit", "fan.speed", "clocks.sm", "clocks.mem"),
    *("pstate", "pcie.link.gen.current", "pcie.link.width.current"),
    "ecc.errors.uncorrected.volatile.total",
)
"""Fields of ``--query-gpu``, all known to drivers since 2015."""
ABSENT = "nvidia-smi does not print it in this form, and there is no Python to ask NVML"
_NOT_ASKED = (
    *("memory.driver_reserved", "throttle", "mig", "processes", "memory_read", "slowdown_c"),
    *("vbios", "pcie.max_generation", "pcie.max_width"),
)
_MIB = 2**20
_KIB = 2**10
_MOST_GPUS = 64
_FORM = f"--query-gpu={','.join(QUERY)} --format=csv,noheader,nounits"
_SCRIPT = f"""\
command -v nvidia-smi >/dev/null 2>&1 || {{ echo "{NO_SMI}" >&2; exit 127; }}
exec 3<&0
echo "{HELLO}"
(
  while :; do
    echo "cores $(grep -c ^processor /proc/cpuinfo)"
    grep -m 1 '^model name' /proc/cpuinfo
    head -n 1 /proc/stat
    grep -E '^Mem(Total|Available)' /proc/meminfo
    sleep "$1"
  done
) </dev/null 2>/dev/null &
figures=$!
nvidia-smi {_FORM} -l "$1" </dev/null &
smi=$!
(
  watch() {{
    ( sleep "$1"; kill "$smi" "$figures" ) &
    dog=$!
  }}
  trap 'kill "$dog"; exit' TERM
  watch "$2"
  while read -r line <&3; do
    kill "$dog"
    watch "$2"
  done
  kill "$dog" "$smi" "$figures"
) >/dev/null 2>&1 &
reader=$!
wait "$smi"
status=$?
kill "$figures" "$reader" 2>/dev/null
exit "$status"
"""
"""Script of sh; its arguments are the seconds between two readings, and those without a keep-alive
after which it ends itself."""


def smi_command(interval: float, silence_s: float) -> tuple[str, ...]:
    """Return the command that prints the figures on a host.

    Args:
        interval: seconds between two readings, at least 1.
        silence_s: seconds without a line on standard input after which it ends.
    """
    return ("sh", "-c", _SCRIPT, "sh", str(max(1, round(interval))), str(silence_s))


@dataclass(frozen=True, slots=True)
class SmiLine:
    """One line of the script."""

    text: str


def parse_line(data: bytes) -> SmiLine:
    """Return a line, whatever it is."""
    return SmiLine(data.decode("utf-8", "replace").strip())


class SmiSamples:
    """Makes samples of the lines; one is complete when each GPU has a new line.

    Args:
        host: name of the host.
        interval_s: seconds between two readings.
        why: why there is no Python.
    """

    def __init__(self, host: str, interval_s: float, why: str) -> None:
        self._host = host
        self._interval_s = interval_s
        self._note = f"{why}: read with nvidia-smi, without processes"
        self._rows: dict[str, dict[str, str]] = {}
        self._memory: dict[str, int] = {}
        self._cores: int | None = None
        self._model = "CPU"
        """Some processors have no name there."""
        self._busy: tuple[int, int] | None = None
        """Ticks of all cores until the newest reading: busy ones, and all."""
        self._load: float | None = None

    def apply(self, line: str) -> Sample | None:
        """Apply a line; return a sample if it is complete with that.

        Raises:
            ValueError: it is no line of the script.
        """
        word, _, rest = line.partition(" ")
        if word in ("MemTotal:", "MemAvailable:"):
            self._memory[word] = int(rest.removesuffix("kB")) * _KIB
        elif word == "cores":
            self._cores = int(rest)
        elif word == "model":
            self._model = line.partition(":")[2].strip()
        elif word == "cpu":
            self._apply_ticks([int(number) for number in rest.split()])
        else:
            return self._apply_row(line)
        return None

    def _apply_ticks(self, ticks: list[int]) -> None:
        # proc_stat(5): user nice system idle iowait irq softirq steal; guest is within user.
        counted = ticks[:8]
        busy, total = sum(counted) - sum(counted[3:5]), sum(counted)
        if self._busy is not None and total > self._busy[1]:
            self._load = 100 * (busy - self._busy[0]) / (total - self._busy[1])
        self._busy = busy, total

    def _apply_row(self, line: str) -> Sample | None:
        try:
            (cells,) = csv.reader([line], skipinitialspace=True)
        except csv.Error as error:
            raise ValueError(line) from error
        if len(cells) != len(QUERY):
            raise ValueError(line)
        row = dict(zip(QUERY, (cell.strip() for cell in cells), strict=True))
        count = int(row["count"])
        if not 0 < count <= _MOST_GPUS:
            raise ValueError(line)
        self._rows[row["index"]] = row
        if len(self._rows) < count or self._cores is None or len(self._memory) < 2:
            return None
        rows, self._rows = list(self._rows.values()), {}
        at = time.time()
        return Sample(
            at=at,
            took_s=0.0,
            host=self._make_host(self._cores),
            driver=Driver(_known(rows[0]["driver_version"]), None, None),
            devices=tuple(_make_device(row, at) for row in rows),
            problems=(self._note,),
            interval_s=self._interval_s,
        )

    def _make_host(self, cores: int) -> Host:
        total, available = self._memory["MemTotal:"], self._memory["MemAvailable:"]
        why = {"frequency_mhz": ABSENT}
        if self._load is None:
            why["load_percent"] = "known from the second reading on"
        cpu = Cpu(self._model, cores, cores, self._load, None, why)
        return Host(self._host, cpu, HostMemory(total, total - available, available))


def _make_device(row: dict[str, str], at: float) -> Device:
    absent: dict[str, str] = {}

    def number(field: str, path: str, kind: Callable[[str], T], factor: int = 1) -> T | None:
        try:
            value = kind(row[field]) * factor
            if not math.isfinite(value):
                raise ValueError(row[field])
        except ValueError:
            # nvidia-smi puts its reasons in brackets, such as [N/A] or [Unknown Error].
            absent[path] = f"nvidia-smi: {row[field].strip('[]') or 'nothing'}"
            return None
        return value

    device = Device(
        id=row["uuid"],
        nvml_index=int(row["index"]),
        torch=None,
        name=row["name"],
        pci_bus_id=_known(row["pci.bus_id"]),
        memory=DeviceMemory(
            number("memory.total", "memory.total", int, _MIB),
            number("memory.used", "memory.used", int, _MIB),
            number("memory.free", "memory.free", int, _MIB),
            None,
        ),
        utilization=Utilization(
            number("utilization.gpu", "utilization.gpu", float),
            number("utilization.memory", "utilization.memory", float),
        ),
        temperature_c=number("temperature.gpu", "temperature_c", float),
        power_w=number("power.draw", "power_w", float),
        power_limit_w=number("power.limit", "power_limit_w", float),
        fan_percent=number("fan.speed", "fan_percent", float),
        clocks_mhz=Clocks(
            number("clocks.sm", "clocks_mhz.sm", int),
            number("clocks.mem", "clocks_mhz.memory", int),
        ),
        pstate=number("pstate", "pstate", _state_number),
        throttle=None,
        pcie=Pcie(
            number("pcie.link.gen.current", "pcie.generation", int),
            number("pcie.link.width.current", "pcie.width", int),
        ),
        ecc_uncorrected=number("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", int),
        mig=None,
        processes=None,
        read_at=at,
    )
    return replace(device, unavailable={**dict.fromkeys(_NOT_ASKED, ABSENT), **absent})


def _state_number(text: str) -> int:
    """Return the number of a performance state, such as 8 for ``P8``."""
    return int(text.removeprefix("P"))


def _known(text: str) -> str | None:
    return None if text.startswith("[") or not text else text
