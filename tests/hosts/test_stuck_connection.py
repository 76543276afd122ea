"""A run on a host behind a connection that is stuck, while another process holds its pipes."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hosts.conftest import Boxes
from tests.tiers import VARIANT, with_variants
from tui.hosts import children
from tui.hosts.address import HostAddress, parse_host
from tui.hosts.children import HostConnection
from tui.hosts.events import HostsNamed
from tui.hosts.plan import HostPlan
from tui.runs.session.session import Session
from tui.runs.state.state import RunsState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class StuckPlan(HostPlan):
    """A host whose shared connection is stuck; one of its own works."""

    async def connect(self, host: HostAddress) -> HostConnection:
        return HostConnection(host, sys.executable, alone=replacement(host))


def replacement(host: HostAddress) -> HostAddress:
    """Return the address of a host with a connection of its own."""
    return HostAddress(host.name, (*host.prefix[:-1], f"{host.name}-alone"))


@pytest.fixture
def stuck(boxes: Boxes) -> Iterator[Callable[[str], StuckPlan]]:
    """Return a plan with one host, whose program holds the pipes in another session."""
    holders = boxes.folder / "holders"

    def make(end: str) -> StuckPlan:
        hold = f"setsid sleep 1000 & echo $! >> {shlex.quote(str(holders))}"
        host = boxes.add("gpu1", f"{hold}\n{end}")
        runner = f"exec {shlex.quote(sys.executable)} -m tests.results.made_runner 0.001"
        boxes.add("gpu1-alone", f"cd {shlex.quote(str(ROOT))}; {runner}")
        return StuckPlan((host,), here=False)

    holders.touch()
    yield make
    for line in holders.read_text(encoding="utf-8").split():
        with suppress(ProcessLookupError):
            os.kill(int(line), signal.SIGKILL)


@asynccontextmanager
async def _session(plan: HostPlan) -> AsyncIterator[tuple[Session, RunsState]]:
    """Request a run on the host; the monitor is not started."""
    session = Session(interval=None, hosts=plan)
    session.state.publish(HostsNamed(("gpu1",), here=False))
    session.select_device("gpu1:cpu")
    session.run(["matmul"])
    try:
        yield session, session.state.runs.of_hosts["gpu1"]
    finally:
        await session.stop()


async def _until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), TIMEOUT_S)


@pytest.mark.parametrize("end", with_variants(["exec sleep 1000"], ["exit 255"]))
@VARIANT
async def test_silence_ends_the_run_and_the_next_one_has_a_connection_of_its_own(
    stuck: Callable[[str], StuckPlan], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "CONNECT_WITHIN_S", 2.0)
    async with _session(stuck(end)) as (session, runs):
        await _until(lambda: not runs.pending())
        assert runs.runner.status == "unusable"
        advice = "run `reach gpu1` once to see where it waits"
        assert runs.runner.reason == f"no answer within 2 s: {advice}"
        monkeypatch.setattr(children, "CONNECT_WITHIN_S", TIMEOUT_S)
        session.run(["matmul"])
        await _until(lambda: not runs.pending())
        ends = [run.result and run.result.status for run in runs.book.values()]
        assert ends == ["failed", "ok"]


@VARIANT
async def test_a_new_runner_is_started_at_once_when_the_user_wants_one(
    stuck: Callable[[str], StuckPlan], boxes: Boxes
) -> None:
    def started() -> int:
        pids = map(int, (boxes.folder / "holders").read_text(encoding="utf-8").split())
        # Outside the group of the runner's program, which is killed.
        return sum(os.getsid(pid) == pid for pid in pids)

    async with _session(stuck("exec sleep 1000")) as (session, runs):
        await _until(lambda: started() == 1)
        session.restart_runner()
        await _until(lambda: not runs.pending())
        await _until(lambda: started() == 2)


async def test_a_plan_names_the_host_without_sharing() -> None:
    host = parse_host("gpu1")
    found = await HostPlan((host,)).connect(host)
    assert found.alone == host
    assert found.unshared().host == host
