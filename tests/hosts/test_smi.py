"""A host without Python: its figures by nvidia-smi, of which a stand-in prints the answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.hosts.conftest import Boxes
from tests.tiers import VARIANT
from tests.waiting import assert_gone, until
from tui.hosts.address import HostAddress
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.smi import HELLO, QUERY, SmiSamples, smi_command
from tui.hosts.watching import first_samples

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
ROW = {
    "count": "2",
    "index": "0",
    "uuid": "GPU-00000001-2222-3333-4444-555555555555",
    "name": "NVIDIA H100 80GB HBM3",
    "pci.bus_id": "00000000:18:00.0",
    "driver_version": "580.95.05",
    "memory.total": "81559",
    "memory.used": "71000",
    "memory.free": "10000",
    "utilization.gpu": "88",
    "utilization.memory": "40",
    "temperature.gpu": "64",
    "power.draw": "612.31",
    "power.limit": "700.00",
    "fan.speed": "[N/A]",
    "clocks.sm": "1980",
    "clocks.mem": "2619",
    "pstate": "P0",
    "pcie.link.gen.current": "5",
    "pcie.link.width.current": "16",
    "ecc.errors.uncorrected.volatile.total": "0",
}
HOST = ("cores 8", "cpu  100 0 100 800 0 0 0 0 0 0", "MemTotal: 1000 kB", "MemAvailable: 400 kB")
WITHOUT_PYTHON = 'case "$1" in env|*python*) exit 127;; esac; exec "$@"'
"""Run the given command unless it is one of Python."""


def _line(**changes: str) -> str:
    return ", ".join({**ROW, **changes}[name] for name in QUERY)


def _box(boxes: Boxes, name: str, script: str) -> HostAddress:
    """Return a host without Python, whose ``nvidia-smi`` is a script of sh."""
    folder = boxes.folder / f"{name}.bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    path = f"{folder}:{os.environ['PATH']}"
    return boxes.add(name, WITHOUT_PYTHON, variables={"PATH": path})


def _printing(*lines: str) -> str:
    printed = "\n".join(f"echo '{line}'" for line in lines)
    return f'echo "$@" > "$HOME/arguments"\nwhile :; do\n{printed}\nsleep 0.2\ndone'


TWO = (_line(), _line(index="1", uuid="GPU-00000002-2222-3333-4444-555555555555"))


async def _first(host: HostAddress) -> HostEvent:
    (event,) = await first_samples((host,), within_s=60)
    return event


async def test_a_host_without_python_shows_what_nvidia_smi_prints(boxes: Boxes) -> None:
    event = await _first(_box(boxes, "gpu1", _printing(*TWO)))
    assert isinstance(event, HostSample), event
    first, second = event.sample.devices
    assert first.memory.used == 71_000 * 2**20
    assert (first.utilization.gpu, first.temperature_c, first.power_w) == (88.0, 64.0, 612.31)
    assert (first.pcie.generation, first.pcie.width, first.pstate) == (5, 16, 0)
    assert first.fan_percent is None
    assert first.unavailable["fan_percent"] == "nvidia-smi: N/A"
    assert first.processes is None
    assert "no Python to ask NVML" in first.unavailable["processes"]
    assert second.nvml_index == 1
    assert event.sample.driver.version == "580.95.05"
    assert event.sample.problems == ("no python3 there: read with nvidia-smi, without processes",)
    assert event.sample.host.memory.total > 0
    arguments = (boxes.folder / "gpu1.home" / "arguments").read_text(encoding="utf-8")
    assert arguments.startswith("--query-gpu=count,index,uuid,")
    assert arguments.rstrip().endswith("--format=csv,noheader,nounits -l 1")


def test_the_list_says_so(boxes: Boxes) -> None:
    _box(boxes, "gpu1", _printing(*TWO))
    words = ["devices", "--transport", boxes.transport, "--host", "gpu1", "--no-here"]
    done = subprocess.run(
        [sys.executable, "-m", "tui", *words], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "gpu1:1" in done.stdout
    assert "read with nvidia-smi" in done.stdout


async def test_without_either_the_missing_python_is_the_reason(boxes: Boxes) -> None:
    event = await _first(boxes.add("gpu1", "exit 127"))
    assert isinstance(event, HostLost)
    assert event.reason == "no python3 there: name a Python with --host-python gpu1=PATH"


async def test_what_nvidia_smi_says_when_it_fails_is_the_reason(boxes: Boxes) -> None:
    said = "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."
    event = await _first(_box(boxes, "gpu1", f"echo '{said}'; exit 9"))
    assert isinstance(event, HostLost)
    advice = "run `reach gpu1` once to see what it does"
    assert event.reason == f"the connection ended: exit status 9; it said {said!r}: {advice}"


def _start(boxes: Boxes, silence_s: float) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Start the script as it runs on a host; return it and its ``nvidia-smi``."""
    host = _box(boxes, "gpu1", "exec sleep 1000")
    child = subprocess.Popen(
        host.command(smi_command(1.0, silence_s)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )

    def find() -> psutil.Process | None:
        # A short command of the script may end between the list and the look at it.
        for process in psutil.Process(child.pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.cmdline()[-1:] == ["1000"]:
                    return process
        return None

    return child, until(find)


def test_it_ends_with_its_input(boxes: Boxes) -> None:
    child, smi = _start(boxes, 1000.0)
    assert child.stdin is not None
    child.stdin.close()
    assert_gone([smi])
    child.wait(60)


@VARIANT
def test_it_ends_itself_when_no_keep_alive_comes(boxes: Boxes) -> None:
    child, smi = _start(boxes, 3.0)
    assert_gone([smi])
    child.wait(60)
    assert child.stdin is not None
    child.stdin.close()


def test_a_sample_is_complete_with_all_gpus_and_the_host() -> None:
    samples = SmiSamples("gpu1", 1.0, "no python3 there")
    assert [samples.apply(line) for line in (TWO[0], *HOST)] == [None] * 5
    found = samples.apply(TWO[1])
    assert found is not None
    assert found.host.cpu.load_percent is None
    assert found.host.memory.used == 600 * 1024
    samples.apply("cpu  150 0 150 900 0 0 0 0 0 0")
    samples.apply(TWO[0])
    again = samples.apply(TWO[1])
    assert again is not None
    assert again.host.cpu.load_percent == 50.0


@pytest.mark.parametrize(
    "line",
    [
        *("", "0, GPU", _line(count="0"), _line(count="many"), HELLO),
        *("50%\r100%", "x" * 200_000, "MemTotal:", "MemTotal: kB"),
    ],
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (its text is the line)
        SmiSamples("gpu1", 1.0, "").apply(line)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999"])
def test_a_figure_that_is_not_finite_is_absent(text: str) -> None:
    samples = SmiSamples("gpu1", 1.0, "")
    lines = (*HOST, _line(**{"count": "1", "power.draw": text}))
    (found,) = (each for line in lines if (each := samples.apply(line)) is not None)
    assert found.devices[0].power_w is None
    assert found.devices[0].unavailable["power_w"] == f"nvidia-smi: {text}"


def test_the_answer_is_json_as_of_any_host(boxes: Boxes, tmp_path: Path) -> None:
    assert tmp_path
    _box(boxes, "gpu1", _printing(*TWO))
    words = ["devices", "--transport", boxes.transport, "--host", "gpu1", "--no-here", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tui", *words], capture_output=True, text=True, timeout=100
    )
    (host,) = json.loads(done.stdout)["hosts"]
    assert len(host["sample"]["devices"]) == 2
