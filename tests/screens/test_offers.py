"""What the empty tabs offer, and what enter does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.results.samples import kept
from tests.screens.app_helpers import Running, running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import Kind, make_store
from tests.watch.test_hostile_folder import BEGAN, BEGIN, END, NAME, OOM, SNAPSHOT, encoded, filled
from tui.app.offers import find_ooms
from tui.app.workbench import WorkbenchApp
from tui.results.store import store_path
from tui.results.store.database import Database


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer nothing that other tests have stored."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))


def _name(on: Running) -> str:
    assert on.app.snapshot is not None
    return on.app.snapshot.session.main.store.paths[0].rpartition("/")[2]


async def test_the_snapshot_tab_opens_the_example_with_one_enter() -> None:
    async with running() as on:
        await on.press("3")
        assert on.row("Open the example snapshot")
        await on.press("enter")
        await on.until(lambda: "Verdict" in on.text and "no backward pass" in on.text)
        # The exception beside it has the device's total.
        assert "Used 139.7 GiB of 139.8 GiB" in on.text
        assert _name(on) == "demo_out_of_memory.pickle.gz"


async def test_the_newest_oom_comes_first_and_opens_its_snapshot(tmp_path: Path) -> None:
    place = filled(tmp_path / "runs" / "20260101-120000-7")
    (place / f"{NAME}.jsonl").write_bytes(encoded(BEGIN, OOM, SNAPSHOT, END))
    (place / "oom.pickle").write_bytes(b"")
    # An older run, and one without a snapshot, which is not offered beside others.
    older = {**OOM, "happened": BEGAN + 4}
    for name, events in (("6", (BEGIN, older, SNAPSHOT, END)), ("8", (BEGIN, OOM, END))):
        other = filled(tmp_path / "runs" / f"20260101-120000-{name}")
        (other / f"{NAME}.jsonl").write_bytes(encoded(*events))
        (other / "oom.pickle").write_bytes(b"")
    (newest, oom), (second, _) = find_ooms()
    assert oom.snapshot == place / "oom.pickle"
    assert (newest.folder.name[-1], second.folder.name[-1]) == ("7", "6")
    async with running((120, 40)) as on:
        await on.press("3")
        await on.until(lambda: bool(on.row("Open the newest OOM")))
        words = on.row("Open the newest OOM")
        assert "python train.py" in words
        assert "requested on cuda:0" in words
        assert "ago" in words
        assert on.row("Open OOM 2")
        assert "enter choose" in on.rows[-1]
        await on.press("enter")
        await on.until(lambda: bool(on.app.snapshot and on.app.snapshot.session.main.store.paths))
        assert _name(on) == "oom.pickle"


async def test_an_oom_without_a_snapshot_opens_its_run(tmp_path: Path) -> None:
    place = filled(tmp_path / "runs" / "20260101-120000-7")
    async with running((120, 40)) as on:
        await on.press("3")
        await on.until(lambda: bool(on.row("Open the newest OOM")))
        assert "no snapshot" in on.row("Open the newest OOM")
        await on.press("enter")
        await on.until(lambda: on.app.watched is not None and on.app.watched.is_current)
        assert on.app.scripted_runs is not None  # type: ignore[attr-defined]
        assert ("open", place.name) in on.app.scripted_runs.asked  # type: ignore[attr-defined]


async def test_stored_results_are_offered_where_there_are_any() -> None:
    with Database(store_path(), writing=True) as database:
        database.add([kept()])
    async with running((100, 30)) as on:
        await on.press("5")
        await on.until(lambda: bool(on.row("Show the results")))
        assert "1 stored; the newest: matmul" in on.row("Show the results")
        # Below what the tab is for.
        assert on.text.index("Watch a script") < on.text.index("Show the results")
        await on.press("end", "enter")
        await on.until(lambda: "Results" in on.text and "1 stored" not in on.text)


async def test_the_snapshot_tab_opens_a_snapshot_although_results_are_stored() -> None:
    with Database(store_path(), writing=True) as database:
        database.add([kept()])
    async with running((100, 30)) as on:
        await on.press("3")
        assert on.row("Open the example snapshot")
        assert "Show the results" not in on.text
        await on.press("enter")
        await on.until(lambda: "Verdict" in on.text and "grow by 3.8 GiB" in on.text)


async def test_the_results_tab_times_a_workload_with_one_enter() -> None:
    async with running() as on:
        await on.press("6")
        await on.until(lambda: bool(on.row("Time matmul  on the CPU and the GPU")))
        await on.press("enter")
        await on.until(lambda: "queued" in on.row("matmul"))


async def test_without_a_gpu_the_offer_names_the_cpu_alone() -> None:
    async with running((80, 24), "no gpu") as on:
        await on.press("6")
        await on.until(lambda: bool(on.row("Time matmul")))
        assert on.row("Time matmul").strip().endswith("on the CPU")


async def test_nothing_that_cannot_be_done_is_offered() -> None:
    async with running(readonly=True) as on:
        await on.press("6")
        await on.until(lambda: "No results are stored" in on.text)
        assert "Time matmul" not in on.text
        assert "Play the demo" not in on.text


async def test_the_demo_ends_the_app_for_its_caller() -> None:
    app = WorkbenchApp(FakeSession(make_store("one gpu")))
    app.can_play_demo = True
    async with app.run_test() as pilot:
        await pilot.press("5")
        await pilot.pause()
        assert not app.demo_requested
        await pilot.press("down", "down", "enter")
        await pilot.pause()
    assert app.demo_requested


@pytest.mark.parametrize("kind", ["one gpu", "no gpu"])
async def test_the_first_start_says_in_one_line_what_to_press(kind: Kind) -> None:
    session = FakeSession(make_store(kind))
    app = WorkbenchApp(session)
    app.first_start = app.can_play_demo = True
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        on = Running(app, session, pilot)
        await on.until(lambda: "r runs a workload" in on.text)
        row = on.row("r runs a workload")
        assert "3 offers an example OOM" in row
        assert "? lists keys" in row
        assert ("6 offers a GPU demo" in row) == (kind == "no gpu")
        assert ("5 watches a script" in row) == (kind != "no gpu")
        await on.press("6")
        await on.until(lambda: "Play the demo" in on.text)


async def test_a_session_that_has_measured_before_says_nothing_of_it() -> None:
    async with running() as on:
        assert "r runs a workload" not in on.text
