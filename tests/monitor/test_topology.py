"""How the GPUs are connected, through the real binding and a scripted NVML."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Gpu, Scenario, uuid


def _read(scripted_nvml: ScriptedNvml, scenario: Scenario) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tui.monitor", "topology"],
        env=scripted_nvml.env(scenario),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _gpus(nvlinks: int = 0) -> Scenario:
    return Scenario(
        devices=tuple(
            Gpu(uuid=uuid(number), bus=0x18 + number, node=number // 2, nvlinks=nvlinks)
            for number in range(4)
        )
    )


def test_pairs_without_nvlink_have_the_part_between_them(scripted_nvml: ScriptedNvml) -> None:
    found = _read(scripted_nvml, _gpus(nvlinks=0))
    assert [row["id"] for row in found["rows"]] == [uuid(number) for number in range(4)]
    assert found["rows"][0]["links"] == ["X", "NODE", "SYS", "SYS"]
    assert found["p2p"][0] == [None, "yes", "yes", "yes"]
    assert found["reason"] == ""


def test_links_through_switches_are_counted(scripted_nvml: ScriptedNvml) -> None:
    found = _read(scripted_nvml, _gpus(nvlinks=18))
    assert found["rows"][3]["links"] == ["NV18", "NV18", "NV18", "X"]


def test_peer_access_that_is_disabled_has_its_reason(scripted_nvml: ScriptedNvml) -> None:
    scenario = _gpus().returns("nvmlDeviceGetP2PStatus", device=2, value=4)
    found = _read(scripted_nvml, scenario)
    why = "disabled by a registry key of the driver"
    assert found["p2p"][2] == [why, why, None, why]
    assert found["p2p"][0] == [None, "yes", "yes", "yes"]


def test_a_driver_that_does_not_say_leaves_it_unknown(scripted_nvml: ScriptedNvml) -> None:
    found = _read(scripted_nvml, _gpus().returns("nvmlDeviceGetP2PStatus", code=3))
    assert found["p2p"][1] == [None] * 4


def test_without_nvml_there_is_a_reason(scripted_nvml: ScriptedNvml) -> None:
    found = _read(scripted_nvml, _gpus().returns("nvmlInitWithFlags", code=9))
    assert found["rows"] == []
    assert "driver is not loaded" in found["reason"]
