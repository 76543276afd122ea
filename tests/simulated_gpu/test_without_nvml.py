"""Torch has CUDA and NVML cannot be asked, as in a container without the utility capability."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests import ceilings
from tests.children.sessions import until
from tests.simulated_gpu.accounts import GPU, Accounts, watched
from tui.app.header import header_line
from tui.devices.memory.model import Absent, Value, get_value
from tui.devices.state.devices import NVML_UNAVAILABLE
from tui.devices.views.device_detail import device_detail
from tui.devices.views.devices import notice
from tui.kit.lines import plain

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]
ROOT = Path(__file__).parents[2]
NVML = "libnvidia-ml.so.1"


@pytest.fixture(scope="module", autouse=True)
def no_nvml(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put libraries first on the search path whose NVML cannot be loaded."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / NVML).write_bytes(b"")
    state = tmp_path_factory.mktemp("state")
    ceilings.keep(state)
    with pytest.MonkeyPatch.context() as patch:
        others = os.environ.get("LD_LIBRARY_PATH", "")
        patch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, (str(folder), others))))
        patch.setenv("GPU_WORKBENCH_STATE", str(state))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def accounts() -> AsyncIterator[Accounts]:
    """Start a session that has run a workload on the first GPU."""
    async with watched(listed=False) as found:
        await found.run("still")
        yield found


async def test_workloads_run_on_the_gpu(accounts: Accounts) -> None:
    result = await accounts.run("grows")
    assert result.device == GPU
    assert result.time is not None


async def test_the_header_says_that_nvml_is_missing_and_not_the_driver(accounts: Accounts) -> None:
    said = plain(header_line(accounts.session.state.runs, "workbench", 200))
    assert "no NVML" in said
    assert "no driver" not in said


async def test_the_pane_says_which_library_is_missing(accounts: Accounts) -> None:
    state = accounts.session.state
    said = notice(state.machine.sample, state.machine.monitor, time.time())
    assert f"{NVML} is not found, though" in said
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in said


async def test_the_detail_names_the_device_and_says_why_nvml_s_figures_are_absent(
    accounts: Accounts,
) -> None:
    found = dict(device_detail(accounts.view, accounts.session.state.machine.sample, time.time()))
    assert found["torch name"] == GPU
    assert found["NVML"].startswith("n/a: no NVML: ")


async def test_torch_s_figures_are_the_account(accounts: Accounts) -> None:
    await accounts.run("still")
    seen = accounts.now()
    assert seen.gauge.term("used").source == "torch mem_get_info"
    assert seen.gauge.term("process").bytes == Absent(NVML_UNAVAILABLE)
    for key in ("allocated", "reserved", "used", "total"):
        assert seen.size(key) is not None
    assert seen.slice("process_and_others")
    total = get_value(seen.gauge.total)
    assert sum(get_value(part.bytes) or 0 for part in seen.gauge.known) == total
    assert NVML_UNAVAILABLE in seen.words


async def test_they_stay_current_while_nothing_runs(accounts: Accounts) -> None:
    told = accounts.session.state.machine.torch_memory[GPU].at
    memory = accounts.session.state.machine.torch_memory
    # The worker is asked with each sample, so that its figures do not grow old.
    await until(accounts.session, lambda: memory[GPU].at > told + 0.5)
    assert isinstance(accounts.now().gauge.term("used").bytes, Value)


async def test_the_history_has_what_torch_finds_used(accounts: Accounts) -> None:
    history = accounts.session.state.machine.history
    await until(
        accounts.session, lambda: history.points(GPU) != () and bool(history.points(GPU)[-1].used)
    )
    point = history.points(GPU)[-1]
    assert point.reserved is not None
    assert point.used is not None
    assert point.used >= point.reserved


async def test_ours_are_not_told_apart_and_nobody_is_called_a_stranger(accounts: Accounts) -> None:
    seen = accounts.now()
    assert seen.slice("others") is None
    assert seen.slice("ours") is None
    assert "held by" not in seen.words


async def _said_by(*words: str) -> str:
    """Return what a command of the program prints."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui", *words, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    said, _ = await child.communicate()
    return said.decode()


async def test_doctor_does_not_send_to_the_cpu() -> None:
    checks = json.loads(await _said_by("doctor", "--json"))["checks"]
    (nvml,) = (check for check in checks if check["name"] == "NVML")
    assert nvml["outcome"] == "warning"
    assert "no NVIDIA driver" not in nvml["found"]
    assert nvml["advice"].startswith("workloads still run on the GPU")
    devices = [check for check in checks if check["name"] == "device"]
    assert devices
    assert all(check["advice"].startswith("workloads run on it") for check in devices)


async def test_devices_lists_what_torch_sees() -> None:
    lines = (await _said_by("devices")).splitlines()
    assert lines[0].startswith("no NVML: ")
    assert lines[1].startswith("cuda:0 ")
    assert lines[1].endswith(f"n/a: {NVML_UNAVAILABLE}")
