"""Whatever allocates, the account is of one moment: its context is what was loaded, never more."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import torch

from tests import ceilings
from tests.children.sessions import until
from tests.simulated_gpu.accounts import GPU, INTERVAL_S, Accounts, Seen, watched
from tui.devices.memory import account
from tui.devices.memory.model import Absent, Stale, get_value
from tui.devices.views.devices import format_status, notice
from workloads.protocol import messages

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

MIB = 2**20
MOVING = ("still", "spikes", "grows", "churns", "stalls")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Accounts]:
    """Start a session whose worker has loaded what a run needs."""
    folder = tmp_path_factory.mktemp("session")
    ceilings.keep(folder / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_WORKBENCH_STATE", str(folder / "state"))
        async with watched() as accounts:
            await accounts.run("still")
            yield accounts


@pytest_asyncio.fixture(loop_scope="module")
async def accounts(shared: Accounts) -> AsyncIterator[Accounts]:
    """Return the session with no account recorded yet."""
    await shared.settled()
    shared.seen.clear()
    yield shared
    shared.session.set_refresh(INTERVAL_S)


async def context_of(accounts: Accounts) -> int:
    """Return the context of a worker at rest, bytes."""
    found = (await accounts.settled()).size("context")
    assert found is not None
    return found


def assert_true(seen: list[Seen], least: int, most: int) -> None:
    """Of each account: the context that there was, a bar that adds up, and no false alarm."""
    for each in seen:
        context = each.size("context")
        assert context is None or least <= context <= most, each.words
        known = [get_value(part.bytes) or 0 for part in each.gauge.known]
        total = get_value(each.gauge.total)
        assert total is None or sum(known) == total
        assert each.gauge.warnings == ()
        assert "container" not in each.words
        assert "NVML does not list" not in each.words


@pytest.mark.parametrize("interval", [INTERVAL_S, 2.0])
@pytest.mark.parametrize("workload", MOVING)
async def test_context_never_moves_by_more_than_was_loaded(
    accounts: Accounts, workload: str, interval: float
) -> None:
    before = await context_of(accounts)
    accounts.session.set_refresh(interval)
    accounts.seen.clear()
    await accounts.run(workload)
    seen = list(accounts.seen)
    assert len(seen) > 5
    assert_true(seen, before, await context_of(accounts))


async def test_at_a_slow_refresh_nothing_is_called_old_before_the_next_sample(
    accounts: Accounts,
) -> None:
    state = accounts.session.state
    accounts.session.set_refresh(30.0)
    await until(
        accounts.session,
        lambda: state.machine.sample is not None and state.machine.sample.interval_s == 30,
    )
    assert state.machine.sample is not None
    for seconds, old in ((29.0, False), (33.0, True)):
        now = state.machine.sample.at + seconds
        gauge = account(state.machine, accounts.view, now)
        assert isinstance(gauge.term("used").bytes, Stale) is old
        assert ("old" in format_status(accounts.view, state.machine.sample, now, 60).text) is old
        assert bool(notice(state.machine.sample, state.machine.monitor, now)) is old


async def test_it_does_not_where_another_process_allocates_beside_it(accounts: Accounts) -> None:
    before = await context_of(accounts)
    async with watched() as beside:
        beside.start("churns", budget="normal")
        await until(beside.session, lambda: GPU in beside.session.state.machine.torch_memory)
        accounts.seen.clear()
        await accounts.run("churns")
        seen = list(accounts.seen)
    after = await context_of(accounts)
    for each in seen:
        context = each.size("context")
        assert context is None or before <= context <= after


async def test_from_a_worker_s_first_moment_nothing_false_is_said() -> None:
    async with watched() as accounts:
        await accounts.run("grows")
        seen = list(accounts.seen)
        assert_true(seen, 0, await context_of(accounts))


async def test_a_worker_at_rest_is_split_after_each_sample(accounts: Accounts) -> None:
    await accounts.run("churns")
    for _ in range(3):
        seen = await accounts.settled()
        process, reserved = seen.size("process"), seen.size("reserved")
        assert process is not None
        assert reserved is not None
        assert seen.size("context") == process - reserved
        assert seen.slice("allocated") == seen.size("allocated")


async def test_what_moves_is_said_to_move_and_torch_s_own_figures_stay(
    accounts: Accounts,
) -> None:
    await accounts.run("grows")
    moving = []
    for each in accounts.seen:
        context = each.gauge.term("context").bytes
        if isinstance(context, Absent) and context.short == "changing":
            moving.append(each)
    assert moving
    for each in moving:
        assert each.slice("allocated") is not None
        assert each.slice("process_and_others") is not None
        assert each.slice("others") is None


async def test_a_busy_worker_s_process_is_one_piece_until_it_speaks(accounts: Accounts) -> None:
    await accounts.run("stalls")
    busy = [each for each in accounts.seen if "the runner is busy" in each.words]
    assert busy
    for each in busy:
        assert isinstance(each.gauge.term("allocated").bytes, Stale)
        assert each.slice("allocated") is None
        assert each.slice("process") == each.size("process")


async def test_what_e_gives_back_is_gone_from_the_next_account(accounts: Accounts) -> None:
    await accounts.run("churns")
    full = await accounts.settled()
    accounts.session.empty_cache(accounts.view.key)
    log = accounts.session.state.log
    await until(accounts.session, lambda: any("returned" in line.text for line in log.lines[-1:]))
    empty = await accounts.settled()
    before, after = full.size("process"), empty.size("process")
    assert before is not None
    assert after is not None
    kept_before, kept_after = full.size("reserved"), empty.size("reserved")
    assert kept_before is not None
    assert kept_after is not None
    assert before - after == kept_before - kept_after
    assert empty.size("context") == full.size("context")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
async def test_an_account_is_of_its_own_device() -> None:
    async with watched(name="cuda:1") as accounts:
        await accounts.run("still", device="cuda:0")
        seen = accounts.now()
        unused = Absent("the runner has not used this device yet")
        assert seen.gauge.term("allocated").bytes == unused
        idle = seen.size("used")
        await accounts.run("still", device="cuda:1")
        busy = (await accounts.settled()).size("used")
        assert idle is not None
        assert busy is not None
        assert busy - idle >= 64 * MIB


async def test_torch_counts_what_it_ever_took_and_gave_back(accounts: Accounts) -> None:
    told: list[messages.TorchMemory] = []
    memory = accounts.session.state.machine.torch_memory
    accounts.session.state.bus.on_change(lambda _parts: told.extend(memory.values()))
    await accounts.run("spikes")
    taken = [each.reserved_allocated or 0 for each in told]
    for each in told:
        assert each.reserved_allocated is not None
        assert each.reserved_freed is not None
        assert each.reserved_allocated - each.reserved_freed == each.reserved
    assert taken == sorted(taken)
    assert taken[-1] > taken[0]
