"""Every process that this program started is its own: workers, ranks, those that are ending."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psutil
import pytest
import pytest_asyncio
import torch

from tests import ceilings
from tests.children.sessions import until
from tests.monitor.process_family import family
from tests.simulated_gpu.accounts import GPU, Accounts, Seen, strangers, watched
from tui.devices.memory.model import Absent, get_value
from tui.devices.views.process_rows import build_row
from tui.devices.views.processes import process_line
from tui.kit.lines import plain
from tui.monitor.messages import GpuProcess
from workloads.protocol.results import RunResult

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]
MIB = 2**20
OWN = os.getpid()
"""Earlier tests may have given this process a CUDA context: it is the program's own."""
SECOND = "cuda:1" if torch.cuda.device_count() > 1 else GPU
HOLDER = f"""
import torch
held = torch.empty({64 * MIB}, dtype=torch.uint8, device="{GPU}")
import sys
sys.stdin.read()
"""


@dataclass
class Watched:
    """What a session showed while something went on."""

    before: Seen
    others: set[int]
    """Strangers on the GPUs before it."""
    first: list[Seen] = field(default_factory=list)
    """The accounts of the first GPU."""
    second: list[Seen] = field(default_factory=list)
    strangers: set[int] = field(default_factory=set)
    workers: set[int] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    """The rows of our own processes but the worker, as the processes tab has them."""
    result: RunResult | None = None
    over: bool = False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def accounts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Accounts]:
    """Start a session whose worker has memory on the first GPU."""
    folder = tmp_path_factory.mktemp("session")
    ceilings.keep(folder / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_WORKBENCH_STATE", str(folder / "state"))
        async with watched() as found:
            found.session.set_parameters("all_reduce", {"mib": 1})
            await found.run("still")
            yield found


async def _watch(accounts: Accounts) -> Watched:
    state = accounts.session.state
    found = Watched(await accounts.settled(), strangers(state.machine.sample))
    elsewhere = Accounts(accounts.session, SECOND)
    accounts.seen, elsewhere.seen = found.first, found.second

    def look(_parts: object) -> None:
        if found.over:
            return
        found.strangers |= strangers(state.machine.sample)
        if state.machine.worker_pid is not None:
            found.workers.add(state.machine.worker_pid)
        for row in rows(accounts):
            if row.ours and row.pid != state.machine.worker_pid:
                named = build_row(row, "", 0, state.machine.worker_pid)
                line = process_line(named, row.started_at or 0.0, 200)
                found.lines.append(plain(line))

    accounts.session.state.bus.on_change(look)
    return found


def _over(found: Watched) -> Watched:
    """Return what the session has shown so far, detached from what follows."""
    found.over, found.first, found.second = True, list(found.first), list(found.second)
    return found


def rows(accounts: Accounts) -> tuple[GpuProcess, ...]:
    device = accounts.view.nvml
    return (device.processes if device is not None else None) or ()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ranks(accounts: Accounts) -> Watched:
    """Return what the session showed while ranks ran."""
    found = await _watch(accounts)
    found.result = await accounts.run("all_reduce")
    return _over(found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def compared(accounts: Accounts, ranks: Watched) -> Watched:
    """Return what the session showed while fresh workers, two for each pair, compared a flag."""
    assert ranks.result
    await accounts.run("still")
    found = await _watch(accounts)
    await _compare(accounts, "cudnn.benchmark", 3)
    return _over(found)


async def _compare(accounts: Accounts, flag: str, pairs: int) -> None:
    session = accounts.session
    name = session.here.request_comparison("conv2d", GPU, flag, (False, True), pairs, "quick")
    await until(session, lambda: session.state.runs.comparisons[name].done)
    comparison = session.state.runs.comparisons[name].comparison
    assert comparison is not None
    assert (comparison.status, comparison.pairs) == ("ok", pairs), comparison.reason


# ---- ranks ----


async def test_ranks_are_no_strangers_to_the_monitor(ranks: Watched) -> None:
    assert ranks.result is not None
    assert ranks.result.pids
    assert not ranks.strangers & set(ranks.result.pids)
    assert ranks.strangers <= ranks.others


@pytest.mark.parametrize("which", ["first", "second"])
async def test_ranks_are_a_slice_of_their_own_on_every_gpu(ranks: Watched, which: str) -> None:
    seen: list[Seen] = getattr(ranks, which)
    ours = [each for each in seen if each.slice("ours")]
    assert ours
    assert any(
        "of this workbench: ranks, or runners that are ending" in each.words for each in ours
    )
    assert not any("none of it the runner's" in each.words for each in ours)


async def test_what_ranks_hold_is_no_part_of_the_worker_s_context(ranks: Watched) -> None:
    context = ranks.before.size("context")
    assert all(each.size("context") in (None, context) for each in ranks.first)


async def test_what_ranks_hold_is_not_others(ranks: Watched) -> None:
    if ranks.others:
        pytest.skip("others are on these GPUs, and come and go by themselves")
    assert all(each.size("others") in (None, 0) for each in (*ranks.first, *ranks.second))


async def test_ranks_are_named_as_ours_in_the_processes_tab(ranks: Watched) -> None:
    assert ranks.lines
    assert all("of this workbench: " in line for line in ranks.lines)


def own_process_is_listed(accounts: Accounts) -> bool:
    return any(row.pid == OWN for row in rows(accounts))


async def test_when_the_ranks_have_ended_they_hold_nothing(
    accounts: Accounts, ranks: Watched
) -> None:
    worker = accounts.session.state.machine.worker_pid
    assert ranks.result
    await until(
        accounts.session,
        lambda: not any(row.ours and row.pid not in (worker, OWN) for row in rows(accounts)),
    )
    seen = await accounts.settled()
    if not own_process_is_listed(accounts):
        assert seen.slice("ours") is None
        assert "of this workbench" not in seen.words


# ---- fresh workers ----


async def test_while_fresh_workers_are_compared_allocated_and_cached_are_kept(
    compared: Watched,
) -> None:
    assert len(compared.workers) >= 6
    for each in compared.first:
        for key in ("allocated", "cached", "reserved"):
            read = each.gauge.term(key).bytes
            assert not isinstance(read, Absent), (key, read)


async def test_no_fresh_worker_is_a_stranger(compared: Watched) -> None:
    assert compared.strangers <= compared.others
    if not compared.others:
        assert not any("other process." in each.words for each in compared.first)


async def test_no_account_of_a_comparison_says_what_is_false(compared: Watched) -> None:
    for each in compared.first:
        assert "none of it the runner's" not in each.words
        assert "container" not in each.words
        assert each.gauge.warnings == ()


async def test_the_bar_adds_up_in_every_account_of_a_comparison(compared: Watched) -> None:
    for each in compared.first:
        total = get_value(each.gauge.total)
        assert sum(get_value(part.bytes) or 0 for part in each.gauge.known) == total


async def test_a_comparison_within_one_worker_keeps_its_figures_too(accounts: Accounts) -> None:
    await accounts.run("still")
    accounts.seen = []
    await _compare(accounts, "cudnn.conv.fp32_precision", 2)
    assert accounts.seen
    for each in accounts.seen:
        assert get_value(each.gauge.term("allocated").bytes) is not None


# ---- strangers and the dead ----


async def test_a_process_that_is_not_ours_is_a_stranger_with_its_memory(
    accounts: Accounts,
) -> None:
    before = (await accounts.settled()).size("others")
    assert before is not None
    # Its parent has ended and its session is its own: nothing ties it to this program.
    with family(own_session=True, parent_stays=False, code=HOLDER) as (_, stranger):
        await until(
            accounts.session,
            lambda: (accounts.now().size("others") or 0) >= before + 64 * MIB,
        )
        seen = accounts.now()
        assert not next(row for row in rows(accounts) if row.pid == stranger).ours
        assert "is used by" in seen.words
        psutil.Process(stranger).terminate()
    await until(accounts.session, lambda: all(row.pid != stranger for row in rows(accounts)))


async def test_a_worker_that_was_killed_leaves_no_figures_behind(accounts: Accounts) -> None:
    pid = accounts.session.state.machine.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(accounts.session, lambda: accounts.session.state.machine.worker_pid is None)
    assert accounts.now().gauge.term("allocated").bytes == Absent("torch starts with the next run")
    await until(accounts.session, lambda: all(row.pid != pid for row in rows(accounts)))
    assert {row.pid for row in rows(accounts) if row.ours} <= {OWN}
    if not own_process_is_listed(accounts):
        assert accounts.now().slice("ours") is None
