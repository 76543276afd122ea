"""Torch processes on a host behind sshd: read to the byte, and their OOMs explained here."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.rig import Rig
from tests.screens.helpers import screen_text
from tests.simulated_gpu.hosts import make_gpu_host, needs_host
from tui.app.workbench import WorkbenchApp
from tui.devices.state.hosts import HostState
from tui.hosts.address import parse_host
from tui.hosts.plan import HostPlan
from tui.runs.session.session import Session
from tui.watch.state.host_ooms import explain_host_ooms
from workloads.protocol.torch_memory import TorchMemory

pytestmark = needs_host(300, "it fills a simulated GPU of 8 GiB")
STATISTICS = """
import json, os, sys, torch
def say():
    print(json.dumps({"pid": os.getpid(), "of": torch.cuda.memory_stats(0)}), flush=True)
held = [torch.empty(3, device="cuda")]
say()
for line in sys.stdin:
    exec(line)
    say()
"""
LINES = (
    "held += [torch.empty(300 * (i + 1) ** 2, device='cuda') for i in range(90)]",
    "del held[::3]",
    "torch.cuda.empty_cache()",
    "held += [torch.empty(2**20 + i, device='cuda') for i in range(20)]",
    "torch.cuda.reset_peak_memory_stats(); held += [torch.empty(7, device='cuda')]",
    "del held[:]",
)
LEAK = """
import os, sys, torch
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
print(os.getpid(), flush=True)
sys.stdin.readline()
def train():
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")
        loss = (model(x) - x).square()
        losses.append(loss)
        loss.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
train()
"""
NAMES = {
    "requested": "requested_bytes",
    "allocated": "allocated_bytes",
    "active": "active_bytes",
    "reserved": "reserved_bytes",
    "inactive_split": "inactive_split_bytes",
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with make_gpu_host() as found:
        yield found


@contextmanager
def _program(rig: Rig, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program on the host."""
    ssh = str(rig.folder / "bin" / "ssh")
    with subprocess.Popen(
        [ssh, "-T", "box1", shlex.join(words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _leaking(rig: Rig, folder: Path) -> tuple[str, ...]:
    script = folder / "leaks.py"
    script.write_text(LEAK, encoding="utf-8")
    state = rig.folder / "box1" / "home" / "state"
    watch = (sys.executable, "-m", "tui", "watch", "--here", "--", sys.executable, str(script))
    return ("env", f"GPU_WORKBENCH_STATE={state}", *watch)


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _send(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _session(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Session:
    for name, value in rig.environment().items():
        monkeypatch.setenv(name, value)
    return Session(hosts=HostPlan((parse_host("box1"),), here=False), readonly=True)


async def _until(holds: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.05)

    await asyncio.wait_for(wait(), 120)


def _figures(host: HostState, pid: int) -> TorchMemory | None:
    known = host.machine.allocators
    found = known.allocators() if known is not None else ()
    return next((each.figures for each in found if each.process.pid == pid), None)


def _are_of(figures: TorchMemory | None, stats: dict[str, int]) -> bool:
    if figures is None:
        return False
    current = all(
        getattr(figures, name) == stats[f"{key}.all.current"] for name, key in NAMES.items()
    )
    peaks = tuple(stats[f"{name}_bytes.all.peak"] for name in ("allocated", "reserved"))
    return current and (figures.allocated_peak, figures.reserved_peak) == peaks


def _is_read(host: HostState, told: dict[str, Any]) -> bool:
    return _are_of(_figures(host, told["pid"]), told["of"])


async def test_the_screen_reads_what_memory_stats_says_to_the_byte(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _program(rig, sys.executable, "-c", STATISTICS) as process:
        told = json.loads(await asyncio.to_thread(_read, process))
        session = _session(rig, monkeypatch)
        try:
            session.watch()
            (host,) = session.state.machine.hosts.all
            session.watch_torch(True)
            await _until(partial(_is_read, host, told))
            for line in LINES:
                _send(process, line)
                told = json.loads(await asyncio.to_thread(_read, process))
                await _until(partial(_is_read, host, told))
        finally:
            await session.stop()


def _check(line: str) -> None:
    """Hold the first line of an explanation against :data:`LEAK`."""
    text = LEAK.splitlines()
    at = re.search(r"leaks\.py:(\d+) in train", line)
    assert at is not None, line
    assert any(word in text[int(at[1]) - 1] for word in ("randn", "square", "backward")), line
    leak = re.search(r"Leak: losses \(list of \d+, leaks\.py:(\d+)\) grows by 32 MiB", line)
    assert leak is not None, line
    assert "append" in text[int(leak[1]) - 1], line


def test_the_command_explains_an_oom_of_a_watched_process_there(rig: Rig, tmp_path: Path) -> None:
    before = set(_files(rig))
    with _program(rig, *_leaking(rig, tmp_path)) as process:
        pid = _read(process).strip()
        words = ("watch", "--host", "box1", "--pid", pid, "--jsonl", "--every", "0.5")
        with rig.start(*words) as watching:
            assert watching.stdout is not None
            found: dict[str, Any] = {}
            begun = False
            for text in watching.stdout:
                found = json.loads(text)
                if not begun and found["processes"] and found["processes"][0]["devices"]:
                    begun = True
                    _send(process, "go")
                if any(each["explanation"] for each in found["ooms"]):
                    break
            watching.terminate()
    (oom,) = found["ooms"]
    assert oom["pid"] == int(pid)
    assert oom["device"] == 0
    _check(oom["explanation"]["line"])
    assert {row["name"] for row in oom["explanation"]["account"]} >= {"leak", "parameters"}
    # Only the agent in the user's own process has written there.
    written = {path.split("/")[0] for path in set(_files(rig)) - before}
    assert written <= {"state"}


def _files(rig: Rig) -> list[str]:
    home = rig.folder / "box1" / "home"
    return [str(path.relative_to(home)) for path in home.rglob("*")]


async def test_the_screen_explains_an_oom_of_a_watched_process_there(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _program(rig, *_leaking(rig, tmp_path)) as process:
        pid = int((await asyncio.to_thread(_read, process)).strip())
        session = _session(rig, monkeypatch)
        explain_host_ooms(session.state.bus, session.state.machine.hosts)
        app = WorkbenchApp(session)
        async with app.run_test(size=(120, 40)) as pilot:
            (host,) = session.state.machine.hosts.all
            await _until(lambda: bool(host.gpus))
            session.select_device(host.gpus[0].label)
            await pilot.press("4")
            await _until(lambda: _figures(host, pid) is not None)
            _send(process, "go")
            await _until(lambda: any("Leak" in note for note in host.oom_notes))
            _check(host.oom_notes[0])
            assert host.oom_notes[0].startswith(f"process {pid}: OOM at step ")

            await _until(lambda: f"process {pid}: OOM at step" in "\n".join(screen_text(app)))
