"""A run under the watch as text: its table at each width, what is said of it, its plot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, HOSTILE, NOW
from tests.screens.watched import (
    NO_AGENT,
    agent,
    an_oom,
    device,
    kept_run,
    points,
    process_log,
    ran_out,
    taken,
    unread,
    watched,
)
from tui.allocators.messages import CPU_BUILD
from tui.core.text.commands import EXAMPLE
from tui.core.text.glyphs import GLYPHS
from tui.devices.state.watched_processes import StepPoint
from tui.kit.lines import Line, plain, width
from tui.watch.runs.rehearsals import RehearsalNote, begin_note
from tui.watch.session.run_folder import StoredRun
from tui.watch.session.stored_ooms import explain_stored
from tui.watch.state.explained import ProcessOom, newest_oom
from tui.watch.state.processes import REHEARSED
from tui.watch.state.run import Mark, WatchedDevice
from tui.watch.views.memory_plot import (
    MOST_OF_A_KIND,
    NOT_READ,
    Over,
    add_ooms,
    crop_idle,
    find_gaps,
    plot_of,
)
from tui.watch.views.processes import (
    COLUMNS,
    choose_columns,
    device_line,
    heading,
    key_of,
    missing_lines,
)
from tui.watch.views.run import (
    banner_lines,
    describe_oom,
    describe_snapshot,
    format_run_title,
    host_lines,
    snapshots_of,
)
from tui.watch.views.stored_runs import (
    none_lines,
    stored_run_heading,
    stored_run_lines,
    stored_run_summary,
)

WIDTHS = (60, 80, 120, 200)


def words(rows: Iterable[Line]) -> str:
    return " ".join(plain(row).strip() for row in rows)


# ---- the table ----


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (60, "rank pid device allocated reserved step state"),
        (80, "rank pid device allocated reserved peak step steps/s state"),
        (
            120,
            "rank pid device allocated reserved peak process cached retries step steps/s state",
        ),
        (
            200,
            "rank pid device allocated reserved peak process cached retries host step steps/s "
            "state",
        ),
    ],
)
def test_columns_go_by_their_worth(cells: int, names: str) -> None:
    assert plain(heading(cells)).split() == names.split()
    assert {column.name for column in COLUMNS} <= {*plain(heading(200)).split()}


def test_a_rehearsal_names_its_simulated_devices_and_then_its_verdict() -> None:
    def said(note: RehearsalNote, **changes: object) -> str:
        return words(banner_lines(watched(device(), rehearsal=note, **changes), None, 200))

    note = RehearsalNote("L4", 1, 1, None)
    assert "rehearsed on a simulated L4: kernels compute nothing" in said(note)
    assert "rehearsed on 2 simulated L4" in said(replace(note, gpus=2))
    size = replace(note, card="a card of 24G")
    assert "rehearsed on a simulated card of 24G" in said(size)
    assert "rehearsed on 2 simulated cards of 24G" in said(replace(size, gpus=2))
    assert "it was interrupted before its verdict" in said(note, over=True)
    still = begin_note("L4", 1, 22 << 30)
    assert "reading its snapshots for the verdict" in said(still, over=True)
    paragraphs = ("fits on L4: peak 3.0 of 22.0 GiB", "at step 3, train.py:9")
    found = said(replace(note, answer="fits", conclusion=paragraphs), over=True)
    assert found.index(paragraphs[0]) < found.index(paragraphs[1])
    assert said(replace(note, answer="fits"), over=True).strip() == "fits"


@pytest.mark.parametrize("cells", WIDTHS)
def test_a_row_stands_under_its_heading_and_fits(cells: int) -> None:
    head, row = plain(heading(cells)), plain(device_line(device(), cells))
    assert width(device_line(device(), cells)) <= cells
    assert row[: head.index("allocated") + len("allocated")].endswith("2.0 GiB")
    assert row[: head.index("reserved") + len("reserved")].endswith("3.5 GiB")
    assert row.split()[-1] == "runs"
    if "process" in head:
        assert row[: head.index("process") + len("process")].endswith("4.1 GiB")


@pytest.mark.parametrize("cells", WIDTHS)
def test_what_is_missing_is_a_word_and_a_reason_and_never_zero(cells: int) -> None:
    row = plain(device_line(unread(), cells))
    assert "denied" in row
    assert " 0" not in row.replace(" 5001", "")
    said = words(missing_lines(unread(), cells))
    assert "allocated, reserved n/a: Yama's ptrace_scope is 2; sudo it" in said
    assert f"step n/a: {NO_AGENT}" in said
    assert missing_lines(device(), cells) == []


@pytest.mark.parametrize("read", [True, False])
def test_the_row_of_what_an_oom_ended_has_the_figures_of_then(read: bool) -> None:
    last = an_oom(allocated=130 * GIB, reserved=138 * GIB, requested=129 * GIB)
    row = device(ended="exit code 1", agent=None, at_oom=last)
    row = row if read else replace(row, figures=None)
    shown = plain(device_line(row, 200)).split()
    assert shown[3:7] == ["130.0", "GiB", "138.0", "GiB"]
    said = words(missing_lines(row, 100))
    assert "as of its OOM: 130.0 GiB allocated for 129.0 GiB requested" in said
    assert "n/a" not in said


def test_a_figure_of_nvml_that_torch_s_has_outgrown_is_changing() -> None:
    row = device()
    assert row.figures is not None
    older = replace(row, placed=replace(row.placed, process=row.figures.reserved - 1))
    assert "changing" not in plain(device_line(row, 200))
    assert "changing" in plain(device_line(older, 200))
    assert "changing" not in plain(device_line(replace(older, ended="ended"), 200))


def test_the_state_of_a_process_is_told_in_its_row() -> None:
    def state(row: WatchedDevice) -> str:
        return plain(device_line(row, 200)).split("  ")[-1]

    assert state(device()) == "runs"
    assert state(device(agent=agent(recording=True))) == "records"
    assert state(device(agent=None)) == "no agent"
    assert state(device(log=process_log(oom_count=1203))) == "1 203 OOMs"
    assert state(ran_out()) == "ran out"
    again = process_log(ooms=(an_oom(),), oom_count=3)
    assert state(replace(ran_out(), log=again)) == "ran out, 3 OOMs"
    assert (
        state(replace(ran_out(), log=process_log(oom_count=1)))
        == "1 OOM, ended by OutOfMemoryError"
    )


def test_no_row_has_anything_of_a_stranger_that_moves_the_cursor() -> None:
    told = replace(device().process, word=HOSTILE, reason=HOSTILE, unavailable={"rank": HOSTILE})
    row = device(process=told, device=HOSTILE, figures=None, ended=HOSTILE, why_no_agent=HOSTILE)
    shown = plain(device_line(row, 200)) + words(missing_lines(row, 200))
    assert "\x1b" not in shown
    assert "\n" not in shown


# ---- what is said ----


def test_a_rehearsed_process_is_not_said_to_have_used_no_cuda() -> None:
    row = unread()
    row = replace(row, ended="ended", process=replace(row.process, reason=REHEARSED))
    (words,) = [plain(each) for each in host_lines(row, 120)]
    assert words == "Rehearsed without a GPU: `o` opens its peak snapshot."


def test_an_oom_says_who_asked_for_what_and_how_it_ended() -> None:
    found = newest_oom([device(), ran_out()])
    assert found is not None
    said = describe_oom(found, ran_out(), 120)
    for part in (
        "777, rank 0",
        "2.0 GiB requested on cuda:0, 410 MiB of 139.8 GiB free",
        "o opens the verdict",
    ):
        assert part in said
    assert "Select 777 and press o" in describe_oom(found, unread(), 120)
    # Its row says that it ran out, where that fits.
    for cells, in_row in ((120, True), (45, False)):
        assert ("it ended the process" in describe_oom(found, ran_out(), cells)) is not in_row
    assert "ended by OutOfMemoryError" not in describe_oom(found, ran_out(), 45)
    # Where the outcome is unknown, the end of the process is said once: here or in its row.
    oom = an_oom(handled=None, why_not_known="nothing followed it")
    killed = replace(ran_out(), log=process_log(ooms=(oom,)), ended="was killed")
    unsure = ProcessOom(killed, oom)
    assert "nothing followed it, was killed" in describe_oom(unsure, killed, 60)
    assert "nothing followed it. o opens" in describe_oom(unsure, killed, 200)


def test_an_oom_before_any_step_is_not_said_to_be_at_one() -> None:
    state = watched(device(log=process_log(ooms=(an_oom(step=0),))))
    first = plain(banner_lines(state, None, 200)[0])
    assert first.startswith("OOM before any optimizer step, train.py:41.")


def test_an_oom_without_a_snapshot_says_why() -> None:
    oom = an_oom(snapshot=None, why_no_snapshot="less than 256 MiB of the disk are free")
    found = newest_oom([device(log=process_log(ooms=(oom,)))])
    assert found is not None
    said = describe_oom(found, None, 120)
    assert said.endswith("No snapshot: less than 256 MiB of the disk are free")


def test_an_oom_that_ended_a_process_is_told_before_later_ones_that_did_not() -> None:
    later = an_oom(number=2, at=NOW, handled=True)
    other = device(4712, 1, log=process_log(4712, ooms=(later,)))
    found = newest_oom([other, ran_out()])
    assert found is not None
    assert found.oom.number == 1
    assert newest_oom([device()]) is None


def test_frozen_silent_and_empty_runs_say_so() -> None:
    def said(**changes: object) -> str:
        rows = () if changes.pop("empty", False) else (device(),)
        return words(banner_lines(watched(*rows, **changes), None, 200))

    assert said() == ""
    assert "the run continues, z follows it again" in said(frozen_at=NOW)
    assert "no new figures: the watch ended" in said(why_no_samples="the watch ended")
    assert "No process has loaded torch yet" in said(empty=True)
    assert "No process used CUDA while it was watched" in said(empty=True, replayed=True)
    failed = replace(watched().run, ended=NOW, code=2)
    assert said(empty=True, replayed=True, run=failed).startswith("The command failed")
    assert "its output went elsewhere" in said(notes=("its output went elsewhere",))


@pytest.mark.parametrize("cells", WIDTHS)
def test_a_long_command_gives_way_to_how_the_run_is(cells: int) -> None:
    command = ("python", "train.py", *(f"--option-{number}" for number in range(40)))
    state = watched(run=kept_run(command=command))
    shown = format_run_title(state, NOW, cells)
    assert len(shown) <= cells
    assert shown.startswith("Run   python train.py")
    assert shown.endswith("running   2 min 05 s")
    ended = watched(run=kept_run(ended=NOW, signal=9), replayed=True)
    assert "ended by SIGKILL" in format_run_title(ended, NOW, 120)
    assert "end unknown" in format_run_title(watched(replayed=True), NOW, 120)
    # The others may hang.
    partly = format_run_title(watched(ran_out(), unread()), NOW, 120)
    assert "running, 1 of 2 processes ended" in partly


# ---- snapshots ----


def test_the_snapshots_of_a_process_come_in_order_and_an_oom_s_once() -> None:
    found = snapshots_of(ran_out())
    assert [each.step for each in found] == [158, 220]
    assert [each.oom is not None for each in found] == [False, True]
    assert found[0].path == taken(1)
    assert "step 158" in describe_snapshot(found[0])
    assert "OOM" in describe_snapshot(found[1])


# ---- the plot ----


@pytest.mark.parametrize("over", ["time", "steps"])
@pytest.mark.parametrize("cells", WIDTHS)
def test_the_plot_has_both_curves_and_its_marks(over: Over, cells: int) -> None:
    rows = plot_of(ran_out(), over, cells, 14)
    text = "\n".join(plain(row) for row in rows)
    assert len(rows) <= 14
    assert all(width(row) <= cells for row in rows)
    for name in ("cached", "allocated", "GiB over", "flush", "snapshot", "OOM"):
        assert name in text
    assert ("over steps" in text) == (over == "steps")
    # In a narrow plot, the name of the last mark has a row of its own.
    assert text.count(GLYPHS.unfolded) == 3 + any(
        row.endswith((" s OOM", " 220 OOM")) for row in text.splitlines()
    )


def test_the_curve_reaches_what_was_allocated_at_an_oom_between_two_readings() -> None:
    row = ran_out()
    assert row.log is not None
    (oom,) = row.log.ooms
    before = [StepPoint(oom.at - 1 + at / 10, at, at << 20, at << 21) for at in range(10)]
    after = StepPoint(oom.at + 0.1, oom.step, oom.allocated // 2, oom.reserved)
    points = add_ooms(replace(row, points=(*before, after)))
    assert [point.at for point in points] == [*(each.at for each in before), oom.at, after.at]
    assert (points[-2].allocated, points[-2].step) == (oom.allocated, oom.step)
    # The driver's own refusal has no figures of torch.
    refused = replace(row.log, ooms=(replace(oom, request=None),))
    assert len(add_ooms(replace(row, points=(*before, after), log=refused))) == 11
    assert add_ooms(replace(row, points=())) == []


def test_many_flushes_are_counted_and_do_not_hide_the_curves() -> None:
    marks = tuple(Mark(NOW - 119 + at / 10, None, "cache flush", "") for at in range(1000))
    rows = plot_of(device(marks=marks), "time", 100, 20)
    text = "\n".join(plain(row) for row in rows)
    lines = next(row for row in text.split("\n") if "GiB" not in row and "x" not in row)
    assert 1 < lines.count(GLYPHS.wall) <= MOST_OF_A_KIND + 2, "the wall is one of them"
    assert "flush x" in text
    assert len(rows) <= 20


def test_a_plot_leaves_out_the_imports_and_the_time_after_the_oom_that_ended_the_process() -> None:
    idle = [StepPoint(float(at), None, 0, 0) for at in range(20)]
    used = [StepPoint(float(at), None, at, 2 * at) for at in range(20, 40)]
    after = [StepPoint(float(at), None, 39, 78) for at in range(40, 80)]
    whole = (*idle, *used, *after)
    shown = crop_idle(whole, oom_at=39.5)
    assert (shown[0].at, shown[-1].at) == (17.0, 42.0)
    alive = crop_idle(whole, oom_at=None)
    assert (alive[0].at, alive[-1].at) == (13.0, 79.0)
    assert crop_idle(whole, oom_at=70.0)[-1].at == 75.0, "its OOM came later"


@pytest.mark.parametrize("oom_at", [None, 0.0, 4.0, 1e12])
@pytest.mark.parametrize("jump", [0, 4, 99])
def test_a_plot_shows_twenty_readings_at_least(oom_at: float | None, jump: int) -> None:
    whole = [StepPoint(float(at), None, 0, 10**9 * (at >= jump)) for at in range(100)]
    assert len(crop_idle(whole, oom_at=oom_at)) >= 20
    assert crop_idle(whole[:2], oom_at=oom_at) == whole[:2]


@pytest.mark.parametrize("over", ["time", "steps"])
def test_a_gap_of_the_plot_is_no_line_and_says_why(over: Over) -> None:
    whole = points()
    apart = (*whole[:40], *whole[80:])
    assert find_gaps([point.at for point in whole]) == frozenset()
    assert find_gaps([point.at for point in apart]) == {whole[80].at}
    drawn = plot_of(device(points=apart, marks=()), over, 100, 20)
    assert NOT_READ in words(drawn)
    assert NOT_READ not in words(plot_of(device(points=whole, marks=()), over, 100, 20))
    walls = (GLYPHS.wall, GLYPHS.wall_tick)
    picture = [text for row in drawn if any(wall in (text := plain(row)) for wall in walls)]
    assert len(picture) > 5
    assert all(not row[48:60].strip() for row in picture)


@pytest.mark.parametrize("rows", range(8, 24))
def test_a_plot_fills_its_rows_and_a_low_one_has_three_numbers(rows: int) -> None:
    drawn = [plain(row) for row in plot_of(device(), "time", 80, rows)]
    assert len(drawn) == rows
    edge = drawn[-2].index(GLYPHS.corner)
    ticks = [row[:edge].strip() for row in drawn[2:-1] if row[edge] != " " and row[:edge].strip()]
    assert rows >= 16 or ticks == (["4", "2", "0"] if rows > 8 else ["4", "0"])


def test_no_plot_says_why() -> None:
    row = device(agent=None, why_no_agent=NO_AGENT, points=tuple(
        replace(point, step=None) for point in points()
    ))  # fmt: skip
    assert NO_AGENT in words(plot_of(row, "steps", 80, 14))
    assert "it needs two readings" in words(plot_of(unread(), "time", 80, 14))
    assert plot_of(device(), "time", 80, 6) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**13), st.none() | st.integers(0, 9999)),
        max_size=30,
    ),
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["OOM", "snapshot", "cache flush"]))),
    st.integers(24, 200),
    st.integers(8, 40),
    st.sampled_from(["time", "steps"]),
)
def test_whatever_was_seen_the_plot_keeps_to_its_place(
    seen: list[tuple[int, int, int | None]],
    marks: list[tuple[int, str]],
    cells: int,
    height: int,
    over: Over,
) -> None:
    told = tuple(StepPoint(at, step, held, held) for at, held, step in sorted(seen, key=str))
    told = tuple(sorted(told, key=lambda point: point.at))
    row = device(
        points=told,
        marks=tuple(Mark(at, None, kind, "") for at, kind in marks),  # type: ignore[arg-type]
    )
    rows = plot_of(row, over, cells, height)
    assert len(rows) <= height
    assert all(width(line) <= cells for line in rows)


# ---- the runs that are kept ----


@pytest.mark.parametrize("cells", WIDTHS)
def test_a_kept_run_is_a_line_with_its_end_and_its_counts(cells: int) -> None:
    ended = kept_run(ended=NOW - 20, code=1)
    of_it = (
        process_log(steps=240, oom_count=1, ooms=(an_oom(),), snapshots=(taken(1),)),
        process_log(steps=239),
    )
    listed = [StoredRun(ended, False, of_it), StoredRun(kept_run(), True, ())]
    note = RehearsalNote("a card of 8G", 1, 7, None, "fits", ("fits on a card of 8G: peak 1 GiB",))
    (rehearsed,) = stored_run_lines([replace(listed[0], rehearsal=note)], 120, NOW)
    assert "rehearsed: fits" in plain(rehearsed)
    assert "rehearsed" not in " ".join(map(plain, stored_run_lines(listed, 120, NOW)))
    summary = stored_run_summary(replace(listed[0], rehearsal=note), None, 80, 30, NOW)
    assert "fits on a card of 8G: peak 1 GiB" in " ".join(map(plain, summary))
    lines = stored_run_lines(listed, cells, NOW)
    one, other = map(plain, lines)
    assert all(width(line) <= cells for line in lines)
    assert "exit code 1" in one
    assert "running" in other
    head = plain(stored_run_heading(listed, cells, NOW))
    if cells >= 66:
        assert one[: head.index("steps") + 5].endswith(" 240")
        assert one[: head.index("OOMs") + 4].endswith(" 1")
        assert one[: head.index("snaps") + 5].endswith(" 2")
        assert other[: head.index("steps") + 5].endswith("n/a")
        assert "torchrun" in one


OUTPUT = (*(f"step {step}" for step in range(11)), "RuntimeError: loss is nan")


@pytest.mark.parametrize("cells", WIDTHS)
def test_below_the_list_the_run_under_the_cursor_says_how_it_ended(cells: int) -> None:
    ranks = ("torchrun", "--nproc-per-node", "2", "train.py")
    ended = kept_run(ended=NOW - 20, code=1, command=ranks, oom_kills=None)
    logs = (
        process_log(steps=240, rank="1", oom_count=1, ooms=(an_oom(),), kind="OutOfMemoryError"),
        process_log(pid=5001, steps=239, rank="0", ended=False),
        *(process_log(pid=6000 + number, rank=None) for number in range(8)),
    )
    stored = StoredRun(ended, False, logs, OUTPUT)
    lines = stored_run_summary(stored, explain_stored(stored), cells, 60, NOW)
    assert all(width(row) <= cells for row in lines)
    text = words(lines)
    for part in (
        ended.folder.name,
        "torchrun --nproc-per-node 2 train.py",
        "ended with exit code 1 after ",
        "rank 1 ran out of memory; torchrun ended rank 0",
        "rank 1: 240 steps, 1 OOM; ended by OutOfMemoryError",
        "OOM at step 220, train.py:41. Full: live tensors hold 130 GiB",
        "2.0 GiB requested on cuda:0, 410 MiB of 139.8 GiB free",
        "live tensors",
        "rank 0: 239 steps; ended by torchrun",
        "and 2 more processes",
        *OUTPUT,
    ):
        assert part in text
    assert "running for 2 min 05 s, began" in words(
        stored_run_summary(StoredRun(kept_run(), True, ()), None, cells, 9, NOW)
    )
    # The lines of two ranks say which one ran out of memory.
    two = words(stored_run_summary(StoredRun(ended, False, logs[:2], OUTPUT), None, cells, 60, NOW))
    assert "rank 1 ran out of memory" not in two
    assert "OOM at step" not in two  # its explanation is still being read
    assert two.index("rank 0: 239 steps") < two.index("rank 1: 240 steps")
    # The end of the output is what remains of it.
    few = stored_run_summary(StoredRun(ended, False, (), OUTPUT), None, cells, 8, NOW)
    assert len(few) == 8
    assert plain(few[-1]).strip() == OUTPUT[-1]


def test_signs_below_a_traceback_s_code_stay_in_one_row() -> None:
    output = ("    return engine.run_backward(", "        " + "^" * 90, "RuntimeError")
    stored = StoredRun(kept_run(), False, (), output)
    rows = [plain(row) for row in stored_run_summary(stored, None, 60, 20, NOW)]
    assert sum("^" in row for row in rows) == 1


def test_where_no_run_is_kept_the_command_stands_whole() -> None:
    assert EXAMPLE in [plain(row).strip() for row in none_lines(60)]


def test_a_row_is_held_on_to_by_more_than_its_number() -> None:
    again = device(process=replace(device().process, start=NOW - 1))
    assert key_of(again) != key_of(device())


def test_a_cpu_build_of_torch_computes_on_the_cpu_and_has_no_allocated_memory() -> None:
    process = replace(unread().process, reason=CPU_BUILD, word="cpu")
    row = plain(device_line(replace(unread(), process=process), 200)).split()
    assert row[2:4] == ["cpu", "n/a"]


def test_a_process_that_failed_between_two_readings_has_words_and_no_flat_block() -> None:
    row = ran_out()
    (at,) = [mark.at for mark in row.marks if mark.kind == "OOM"]
    after = tuple(replace(row.points[-1], at=at + number) for number in range(1, 9))
    late = replace(row, points=(replace(row.points[-1], at=at - 0.1), *after))
    (words,) = [plain(each) for each in plot_of(late, "time", 100, 30)]
    assert words.startswith("  Too fast for a curve: 1 sample before its OOM.")
    bare = replace(late, log=None)
    (words,) = [plain(each) for each in plot_of(bare, "time", 100, 30)]
    assert words.endswith("watch --record stores each allocation.")
    assert len(plot_of(row, "time", 100, 30)) > 1


def test_the_memory_outside_torch_lies_between_two_levels_of_the_plot() -> None:
    row = ran_out()
    oom = row.last_oom
    assert oom is not None
    assert row.log is not None
    assert oom.limit is not None
    apart = replace(oom, reserved=oom.limit - (30 << 30), free=0)
    shown = replace(row, log=replace(row.log, ooms=(apart,)))
    words = "\n".join(plain(each) for each in plot_of(shown, "time", 120, 40))
    assert "for torch" in words
    near = replace(oom, reserved=oom.limit - (1 << 20), free=0)
    shown = replace(row, log=replace(row.log, ooms=(near,)))
    words = "\n".join(plain(each) for each in plot_of(shown, "time", 120, 40))
    assert "for torch" in words
    assert "limit " not in words


def test_a_column_of_ranks_needs_a_rank() -> None:
    ranked = device()
    alone = replace(ranked, process=replace(ranked.process, rank=None))
    assert "rank" not in plain(heading(120, choose_columns((alone,)))).split()
    assert "rank" in plain(heading(120, choose_columns((alone, ranked)))).split()
