"""The snapshot screen over a real reader and real files.

Whole screens are kept in ``tests/screens/golden_snapshot``. After a wanted change write them anew
and read the diff:

    GPU_WORKBENCH_UPDATE_GOLDEN=1 pytest tests/screens/test_snapshot.py
"""

from __future__ import annotations

import ast
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.children.test_snapshot_reader import MESSAGE, TRAINING, oom_file
from tests.screens.app_helpers import Running, running
from tests.screens.helpers import HOSTILE
from tests.snapshots.scenes import segment
from tests.tiers import VARIANT, with_variants
from tui import recordings
from tui.recordings import DEMO_SNAPSHOT
from tui.snapshots.commands import VIEWS as SNAPSHOT_VIEWS
from tui.snapshots.model.calls import VERDICT
from tui.snapshots.screens.panes import VerdictPane
from tui.snapshots.session.snapshot_reader import Refused
from tui.snapshots.session.snapshot_session import Focus, SnapshotSession
from tui.snapshots.views.shared_lines import view_at
from tui.snapshots.views.timeline_edges import GUTTER

FOLDER = Path(__file__).with_name("golden_snapshot")
DEMO = Path(recordings.__file__).with_name(DEMO_SNAPSHOT)
UPDATE = bool(os.environ.get("GPU_WORKBENCH_UPDATE_GOLDEN"))
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
VIEWS_OF_ONE_FILE = [view for view in SNAPSHOT_VIEWS if view.id != "difference"]
VIEWS: dict[str, tuple[str, ...]] = {
    "sites": ("a", "right", "down"),
    "map": ("B", "down", "right", "plus"),
    # The last, as it goes to another moment, which all views show.
    "timeline": ("L", "left"),
}


def snapshot_session(on: Running) -> SnapshotSession:
    assert on.app.snapshot is not None
    return on.app.snapshot.session


def event(on: Running) -> int | None:
    """Return the event under the cursor."""
    focus = snapshot_session(on).focus
    assert focus is not None
    return focus.event


def waits(session: SnapshotSession) -> bool:
    """Return whether a call has no answer yet."""
    return session.main.store.waiting or session.both.store.waiting


async def settle(on: Running) -> None:
    """Until every question is answered and drawn."""

    def answered() -> bool:
        return not waits(snapshot_session(on))

    await on.settle()
    while not answered():
        await on.until(answered)
        await on.settle()


async def open_file(on: Running, path: str) -> None:
    on.app.open_snapshot(path)
    await on.until(lambda: snapshot_session(on).main.store.status in ("ready", "failed"))
    await settle(on)


async def press(on: Running, *keys: str) -> None:
    for key in keys:
        await on.press(key)
        await settle(on)


@pytest.mark.parametrize("size", with_variants(["120x40"], ["80x24"]))
async def test_the_screens_are_as_they_were(size: str) -> None:
    shown = {}
    async with running(SIZES[size]) as on:
        await open_file(on, TRAINING)
        for view, keys in VIEWS.items():
            await press(on, *keys)
            shown[view] = "".join(f"{row}\n" for row in on.rows)
    for view, text in shown.items():
        path = FOLDER / f"{view}-{size}.txt"
        if UPDATE:
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), path.name


async def test_how_to_record_a_snapshot_can_be_copied_line_by_line() -> None:
    async with running((80, 24)) as on:
        await on.press("3")
        rows = [row.strip() for row in on.rows]
        code = [row for row in rows if row.startswith("torch.cuda.memory._")]
        assert len(code) == 2
        assert all(ast.parse(row) for row in code)


async def test_the_summary_of_a_file_without_an_oom() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        assert "peaked at 1.7 GiB" in on.text
        assert on.rows[2].strip("━ ").startswith("no OOM")
        # An event's number is a name: as two words, "event 11 205" would be the eleventh.
        assert "at event 11205" in on.text
        assert "What would help" not in on.text
        assert "events 23 105" in on.text
        assert on.row("count  site").split() == ["bytes", "%", "count", "site"]
        assert on.row("client.py:176 reset_model").startswith("    478 MiB  28%     196")


async def test_without_a_verdict_i_says_why_and_the_figures_of_the_device_stay(
    tmp_path: Path,
) -> None:
    async with running((100, 40)) as on:
        await open_file(on, oom_file(tmp_path))
        await on.until(lambda: bool(on.row("Could not allocate 100 MiB")))
        store = snapshot_session(on).main.store
        slot, done = next(each for each in store.answers.items() if each[1].need.method == VERDICT)
        store.record_call(10**6, done.need)
        del store.answers[slot]
        await on.press("i")
        await on.until(lambda: "the verdict is not ready yet" in on.text)
        store.answers[slot] = replace(done, value=Refused("its blocks overlap"))
        assert on.app.snapshot is not None
        on.app.snapshot.catch_up()
        await on.press("i")
        await on.until(lambda: "there is no verdict: its blocks overlap" in on.text)
        assert "live at end" in on.text


@pytest.mark.parametrize(
    ("size", "drawn"), [((120, 36), False), ((120, 48), True), ((80, 24), False), ((200, 55), True)]
)
async def test_empty_rows_below_the_verdict_show_the_memory_until_then(
    size: tuple[int, int], drawn: bool
) -> None:
    async with running(size) as on:
        await open_file(on, str(DEMO))
        (verdict,) = on.app.screen.query(VerdictPane)
        assert verdict.picture.display is drawn
        assert ("OOM, peak" in on.text) is drawn
        if drawn:
            assert verdict.picture.size.height + len(verdict.body.shown_lines) <= size[1]
            (peak,) = (row for row in on.rows if "OOM, peak" in row)
            assert peak.rstrip(" │").endswith("X")
            legend = on.row(" A  demo_workloads.py")
            assert legend.startswith("│   A "), "below the text"
            at = on.rows.index(legend)
            names = " ".join(on.rows[at:])
            assert all(f" {letter}  demo_workloads.py:" in names for letter in "ABCDEF")


@pytest.mark.parametrize(("size", "drawn"), [((120, 50), True), ((80, 24), False)])
@VARIANT
async def test_without_a_history_the_segments_are_below_the_verdict(
    size: tuple[int, int], drawn: bool
) -> None:
    async with running(size) as on:
        await open_file(on, str(Path(TRAINING).with_name("diffusion.pickle")))
        assert ("Memory by segment (B)" in on.text) is drawn
        assert ("more lines of the map" in on.text) is drawn
        assert ("L large pool" in on.text) is drawn


async def test_i_gives_the_reasons_for_the_verdict(tmp_path: Path) -> None:
    async with running((100, 40)) as on:
        await open_file(on, oom_file(tmp_path))
        await on.until(lambda: bool(on.row("Could not allocate 100 MiB")))
        assert "requested 100 MiB" not in on.text
        await press(on, "i")
        for words in ("requested 100 MiB", "reserved ", "Requested at"):
            assert words in on.text


async def test_a_verdict_takes_the_text_of_the_exception(tmp_path: Path) -> None:
    async with running((100, 40)) as on:
        await open_file(on, oom_file(tmp_path))
        assert on.row("OOM on device 0   event 0 of 1")
        assert "Could not allocate 100 MiB" in on.text
        assert "device total n/a" in on.text
        await press(on, "I")
        on.app.screen.query_one("TextArea").text = MESSAGE  # type: ignore[attr-defined]
        await press(on, "f2")
        assert "device total 1.0 GiB" in on.text


async def test_the_moment_is_the_same_in_all_views() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        await press(on, "L", "home", "full_stop", "full_stop")
        assert event(on) == 2
        for key in ("a", "B"):
            await press(on, key)
            assert "event 2 of 23105" in on.text
        await press(on, "E")
        assert "at the end" in on.text
        await press(on, "p")
        assert "at the peak (event 11205)" in on.text


@VARIANT
async def test_sites_are_searched_grouped_and_unfolded() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        await press(on, "a", "right")
        assert "▾ client.py:176 reset_model" in on.text
        await press(on, "left", "b")
        assert "by function" in on.text
        assert "reset_model" in on.text
        await press(on, "b", "b", "b", "b", "b", "b", "b", "slash", *"reset_model", "enter")
        assert "search: reset_model" in on.text
        assert "client.py:176 reset_model" in on.text
        assert "adam_forward.py:168 <listcomp>" not in "\n".join(on.rows[4:14])
        await press(on, "slash", "escape")
        assert "search:" not in on.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@VARIANT
async def test_a_site_has_its_memory_over_the_events_where_there_is_room(
    size: tuple[int, int],
) -> None:
    async with running(size) as on:
        await open_file(on, str(DEMO))
        await press(on, "a")
        assert ("GiB over events" in on.text) == (size[0] >= 110)
        assert ("highest 47.1 GiB" in on.text) == (size[0] >= 110)
        await press(on, "right", "down")
        assert ("highest 47.1 GiB" in on.text) == (size[0] >= 110), "a caller has its site's"
        await press(on, "left", "left", "b")
        assert "over events" not in on.text, "functions have no layer"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 55)])
@VARIANT
async def test_few_sites_leave_their_rows_to_the_stack_and_the_plot(size: tuple[int, int]) -> None:
    async with running(size) as on:
        await open_file(on, str(DEMO))
        await press(on, "a")
        last = on.rows.index(on.row("demo_workloads.py:116 _evaluate"))
        assert set(on.rows[last + 1].strip("│")) == {"─"}, "the rule"
        await press(on, "slash", *"randn", "enter")
        assert set(on.rows[5].strip("│")) == {"─"}, "below the only site"
        await press(on, "slash", "escape")
        assert set(on.rows[last + 1].strip("│")) == {"─"}


async def test_zoom_and_cursor_of_the_timeline() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        await press(on, "L", "p", "plus", "plus", "plus")
        assert "events 0–23104" not in on.text
        await press(on, *["minus"] * 4)
        assert "events 0–23104" in on.text
        await press(on, "home")
        await press(on, "right")
        assert event(on) == 23105 // (80 - GUTTER)
        await press(on, "end", "pagedown", "left")
        assert event(on) is not None


@VARIANT
async def test_layers_are_chosen_stacked_and_clicked() -> None:
    async with running((120, 40)) as on:
        await open_file(on, TRAINING)
        await press(on, "L")
        assert "B  client.py:176 reset_model" in on.row("client.py:176 reset_model")
        chart = on.app.screen.query_one("#chart")
        assert chart.size.height > on.app.screen.query_one("#timeline").size.height / 2
        for _ in range(6):
            if "client.py:176 reset_model  478 MiB  in 196" not in on.text:
                await press(on, "up")
        assert "client.py:176 reset_model  478 MiB  in 196 allocations  28% of what was" in on.text
        assert "parameters: the stack moves or makes a module's parameters" in on.text
        assert "+8 library frames" in on.text
        await press(on, "i")
        assert "module.py:957 _apply" in on.text
        await press(on, "escape", "b")
        assert "by category" in on.text
        assert on.row("forward pass")
        assert "in 196 allocations" not in on.text
        await press(on, "b", "b")
        await on.pilot.click("#chart", offset=(60, chart.size.height - 4))
        await settle(on)
        assert "of what was live" in on.text
        assert event(on) not in (None, 11205)
        await press(on, "down")
        assert "of what was live" not in on.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@VARIANT
async def test_without_a_history_the_timeline_says_how_to_record_one(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with running(size) as on:
        await open_file(on, oom_file(tmp_path))
        await press(on, "L")
        assert "The file has no history of the memory" in on.text
        assert "--record" in on.text
        await on.until(lambda: "oom 100 MiB" in on.text)
        assert "events 0" not in on.text
        await press(on, "i")
        assert "─ Stack ─" in on.text


async def test_the_flame_view_is_walked_into_and_back() -> None:
    async with running((120, 40)) as on:
        await open_file(on, TRAINING)
        await press(on, "f")
        assert "level 0 of" in on.text
        row = [row for row in on.rows if "live memory" in row][-1]  # below the picture
        whole = row.partition("live memory")[2].split()[:2]
        await press(on, "down")
        assert "level 1 of" in on.text
        await press(on, "right", "enter")
        assert f" of {' '.join(whole)}   level" in on.text
        await press(on, "backspace")
        assert "level 0 of" in on.text
        await press(on, "b")
        assert "all frames" in on.text
        begins = next(y for y, row in enumerate(on.rows) if "live memory" in row)
        outer = next(y for y, row in enumerate(on.rows) if y > begins and ".py:" in row)
        await on.pilot.click("#flame-chart", offset=(3, outer - begins))
        await settle(on)
        assert "level 1 of" in on.text
        await press(on, "p")
        assert "at the peak" in on.text


async def test_a_legend_without_room_says_where_the_other_layers_are_named() -> None:
    async with running((120, 39)) as on:
        await open_file(on, str(recordings.FOLDER / DEMO_SNAPSHOT))
        await on.until(lambda: "L names the others" in on.text)
        await press(on, "L")
        await on.until(lambda: " C  " in on.text)
        assert "L names the others" not in on.text


@VARIANT
async def test_enter_unfolds_a_group_of_full_segments_of_the_map() -> None:
    async with running((120, 40)) as on:
        await open_file(on, str(recordings.FOLDER / DEMO_SNAPSHOT))
        await press(on, "B", "end", "up", "up")
        assert "52 full segments of 894" in on.rows[2]
        assert "▸ 52 full segments  1.5 GiB" in on.text
        await press(on, "enter")
        assert "▾ 52 full segments  1.5 GiB" in on.text
        await press(on, "down")
        assert "1 of 894 segments   " in on.rows[2]
        assert "full segments" not in on.rows[2]
        await press(on, "up", "enter")
        assert "▸ 52 full segments  1.5 GiB" in on.text


@VARIANT
async def test_i_shows_the_whole_stack_where_frames_of_libraries_are_folded() -> None:
    async with running((120, 40)) as on:
        await open_file(on, TRAINING)
        await press(on, "a")
        assert "module.py:1357 convert  +8 library frames" in on.text
        for view in "af":
            await press(on, view)
            assert "i stack" in on.rows[-1]
            await press(on, "i")
            assert "─ Stack ─" in on.text
            assert "+8 library frames" not in on.text
            await press(on, "escape")


async def test_two_files_are_compared() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        await press(on, "C")
        assert "c chooses the file to compare with" in on.text
        assert on.rows[-1].startswith(" c compare ")
        assert "group by" not in on.rows[-1]
        snapshot_session(on).compare_with(str(Path(TRAINING).with_name("diffusion.pickle")))
        await on.until(lambda: snapshot_session(on).both.store.status == "ready")
        await settle(on)
        assert "+7.1 GiB new" in on.text
        assert "b group by" in on.rows[-1]


@VARIANT
async def test_the_picker_beside_the_example_begins_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "later.pickle").write_bytes(b"x")
    async with running() as on:
        await open_file(on, str(recordings.FOLDER / DEMO_SNAPSHOT))
        await press(on, "c")
        await on.until(lambda: "later.pickle" in on.text)
        assert "cli.py" not in on.text


async def test_drawing_sends_nothing_and_the_screen_requests_what_is_needed(
    tmp_path: Path,
) -> None:
    async with running((120, 40)) as on:
        await open_file(on, oom_file(tmp_path))
        session, tab = snapshot_session(on), on.app.snapshot
        assert tab is not None
        first = session.focus
        for view in VIEWS_OF_ONE_FILE:
            await press(on, view.key)
            pane = tab.panes[view.id]
            assert tab.shown is pane
            assert pane.needs()
            # As the tab's own keys do, but without a word to the screen.
            session.main.store.answers.clear()
            session.focus = Focus(0, -1)
            pane.state_changed()
            assert pane.needs()
            assert not waits(session), view.id
            tab.catch_up()
            assert waits(session), view.id
            await settle(on)
            session.focus = first


async def test_each_view_has_its_pane_its_key_and_its_place_in_the_bar() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        tab = on.app.snapshot
        assert tab is not None
        assert list(tab.panes) == [view.id for view in SNAPSHOT_VIEWS]
        column = 0
        for view in SNAPSHOT_VIEWS:
            assert on.row(SNAPSHOT_VIEWS[0].title)[column:].startswith(f" {view.key} {view.title} ")
            assert view_at(column) == view.id
            column += len(f" {view.key} {view.title} ")
            await press(on, view.key)
            assert tab.session.view == view.id
            assert tab.shown is tab.panes[view.id]
            assert tab.shown.reader is (
                tab.session.both if view.id == "difference" else tab.session.main
            )


async def test_a_file_is_chosen_by_typing(tmp_path: Path) -> None:
    path = oom_file(tmp_path)
    async with running() as on:
        await press_plain(on, "3", "o")
        field = on.app.screen.query_one("#path")
        field.value = f"{tmp_path}/"  # type: ignore[attr-defined]
        await on.settle()
        assert "oom.pickle" in on.text
        await press_plain(on, "end", "o", "tab")
        assert field.value == path  # type: ignore[attr-defined]
        await press_plain(on, "enter")
        await on.until(lambda: snapshot_session(on).main.store.status == "ready")
        await settle(on)
        assert "OOM on device 0" in on.text


@VARIANT
async def test_slashes_are_typed_into_every_dialog() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        for view in ("timeline", "sites", "map", "difference"):
            snapshot_session(on).show(view)
            await settle(on)
            for key, field in (("o", "#path"), ("c", "#path"), ("I", "TextArea")):
                await press_plain(on, key, "x", "slash", "a", "slash", "b")
                widget = on.app.screen.query_one(field)
                typed = widget.text if field == "TextArea" else widget.value  # type: ignore[attr-defined]
                assert typed.endswith("x/a/b"), (view, key)
                await press_plain(on, "escape")
                assert snapshot_session(on).view == view


async def press_plain(on: Running, *keys: str) -> None:
    for key in keys:
        await on.press(key)


async def test_a_bad_file_and_one_that_is_not_there_are_told() -> None:
    async with running() as on:
        await open_file(on, __file__)
        assert "neither a pickle nor JSON" in on.text
        await open_file(on, "/nowhere/at/all.pickle")
        assert "does not exist" in on.text
        await open_file(on, TRAINING)
        assert "peaked at 1.7 GiB" in on.text


async def test_a_file_that_cannot_be_read_loses_the_open_one_for_a_key_alone(
    tmp_path: Path,
) -> None:
    async with running((80, 24), "no gpu") as on:
        await open_file(on, oom_file(tmp_path))
        snapshot_session(on).main.set_text("CUDA out of memory. Tried to allocate 2.00 GiB")
        await settle(on)
        await open_file(on, "/etc/passwd")
        assert "Open the last snapshot again" in on.row("oom.pickle")
        await on.press("home", "enter")
        await settle(on)
        session = snapshot_session(on)
        assert session.main.store.paths == (oom_file(tmp_path),)
        assert session.main.store.oom_text.startswith("CUDA out of memory")
        assert "again" not in on.text


async def test_names_in_a_file_are_text_and_nothing_else(tmp_path: Path) -> None:
    hostile = segment(0x1000000, [("allocated", 40)])
    hostile["blocks"][0]["frames"] = [
        {"filename": f"/home/a/{HOSTILE}\x1b[31m.py", "line": 1, "name": HOSTILE}
    ]
    path = tmp_path / "hostile.pickle"
    path.write_bytes(pickle.dumps({"segments": [hostile], "device_traces": [[]]}))
    async with running((160, 40)) as on:
        await open_file(on, str(path))
        for key in ("v", "t", "s", "m"):
            await press(on, key)
            assert "\x1b" not in on.text
        await press(on, "a")
        assert HOSTILE in on.text


@VARIANT
async def test_every_view_has_its_help_and_its_keys_at_every_size() -> None:
    async with running() as on:
        await open_file(on, TRAINING)
        for size in ((60, 20), (80, 24), (200, 50)):
            await on.resize(*size)
            await settle(on)
            for key in ("v", "t", "s", "m", "D"):
                await press(on, key)
                assert "? help" in on.rows[-1], (size, key)
                await press(on, "question_mark")
                assert "escape close" in on.text, (size, key)
                await press(on, "escape")


@VARIANT
async def test_the_views_agree_on_a_site_at_one_event() -> None:
    async with running((200, 50)) as on:
        await open_file(on, str(DEMO))
        await press(on, "L", *["left"] * 30)
        at = event(on)
        legend = re.search(r" A  (\S+ \S+) (\S+ \S+),", on.text)
        assert legend is not None
        assert f"at event {at} of" in on.text
        label, size = legend.groups()
        await press(on, "a")
        row = on.row("A  ")
        assert label in row
        assert f" {size} " in row
        highest = re.search(r"highest (\S+ \S+)", on.text)
        assert highest is not None
        await press(on, "E")
        assert f" {highest[1]} " in on.row("A  "), "a leak is highest at the end"
        await press(on, "f")
        assert any(label in row and f" {highest[1]} " in row and "%" in row for row in on.rows)
