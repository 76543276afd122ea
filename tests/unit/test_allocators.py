"""Other processes' allocators: what is kept of them, and how an account splits what they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import (
    GIB,
    MIB,
    NOW,
    STRANGER,
    WORKER,
    gpu,
    gpu_process,
    make_store,
    sample,
)
from tests.screens.watching import (
    START,
    STORY,
    TORCHRUN,
    figures,
    said,
    seen,
    told,
    torch_process,
)
from tui.allocators.messages import WatchHello
from tui.core.events import Topic, WatchStatus
from tui.core.text import glyphs
from tui.core.text.commands import shorten_command
from tui.core.text.glyphs import GLYPHS
from tui.devices.memory import OTHER_PARTS, Gauge, ProcessMemory, account
from tui.devices.memory.model import Absent, Stale, Value, get_value
from tui.devices.memory.others import OLD, account_in, account_of
from tui.devices.state.history import MemoryPoint
from tui.devices.state.watched_processes import MOST_ENDED, Allocator
from tui.devices.views.history import RecentReadings
from tui.devices.views.memory import bar_line, legend_lines, memory_title, other_lines
from tui.devices.views.memory_account import account_details
from tui.devices.views.process_memory import process_history, process_lines
from tui.devices.views.process_rows import ProcessRow, process_rows
from tui.devices.views.processes import columns, heading, process_line, selected_lines, unread_notes
from tui.kit.lines import plain
from tui.runs.state.state import WorkbenchState
from workloads.protocol.messages import TorchMemory

KEY = (STRANGER, START, "cuda:0")


def watched(*more: object) -> WorkbenchState:
    return make_store("one gpu", *STORY, *more)  # type: ignore[arg-type]


def allocator(state: WorkbenchState) -> Allocator:
    assert state.machine.allocators is not None
    actual = state.machine.allocators.find(KEY)
    assert actual is not None
    return actual


def others(state: WorkbenchState, now: float = NOW) -> tuple[ProcessMemory, ...]:
    return account(state.machine, state.machine.selected_device, now).others


def rows(state: WorkbenchState) -> tuple[ProcessRow, ...]:
    return process_rows(
        state.machine.devices,
        state.machine.sample,
        of_host=False,
        worker_pid=state.machine.worker_pid,
        pattern="",
        order="memory",
        before=(),
        allocators=state.machine.allocators,
        now=NOW,
    )


def gauge_of(state: WorkbenchState, actual: Allocator, now: float = NOW) -> Gauge:
    view = next(item for item in state.machine.devices if item.key == actual.placed.id)
    return account_of(
        actual, view, state.machine.sample, state.machine.history.sampled_peak(view.key), now
    )


# ---- what is kept ----


def test_a_store_knows_nothing_of_the_watch_until_it_says_something() -> None:
    state = make_store()
    assert state.machine.allocators is None
    assert state.publish(WatchHello(1, 5)) == {Topic.ALLOCATORS}
    assert state.machine.allocators is not None


def test_a_reading_that_says_what_is_known_draws_nothing() -> None:
    state = watched()
    assert state.publish(said(figures(at=NOW + 0.5))) == frozenset()
    assert state.publish(said(figures(at=NOW + 1, allocated=GIB))) == {Topic.ALLOCATORS}
    # What had grown old is drawn as new.
    assert state.publish(said(figures(at=NOW + 60, allocated=GIB))) == {Topic.ALLOCATORS}


def test_the_history_has_a_point_a_second_at_most_with_the_highest_of_it() -> None:
    state = watched(
        said(figures(at=NOW + 0.1, allocated=3 * GIB)), said(figures(at=NOW + 0.2, allocated=GIB))
    )
    state.publish(said(figures(at=NOW + 5)))
    points = allocator(state).recent
    assert [point.allocated for point in points] == [3 * GIB, 2 * GIB]
    assert points[-1].process == int(4.1 * GIB)


def test_an_account_older_than_the_newest_figures_has_its_age() -> None:
    state = watched()
    actual = allocator(state)
    view = next(item for item in state.machine.devices if item.key == actual.placed.id)
    assert gauge_of(state, actual, NOW + 0.5).age_s is None
    state.publish(said(figures(at=NOW + 1.3, allocated=4 * GIB, reserved=5 * GIB)))
    gauge = gauge_of(state, actual, NOW + 1.5)
    assert gauge.term("allocated").bytes == Value(2 * GIB)
    age = gauge.age_s
    then = actual.consistent_reading(view, NOW + 1.5).torch
    assert then is not None
    assert age is not None
    assert age == pytest.approx(NOW + 1.5 - then.at)
    assert age > 0.2
    title = memory_title(gauge, view, 100)
    assert title.endswith(f"account of {age:.1f} s ago")


def test_a_process_that_ends_keeps_its_last_figures_and_its_gpu() -> None:
    state = watched(sample(gpu(processes=(gpu_process(),))), told())
    actual = allocator(state)
    assert actual.ended
    assert actual.placed.id == gpu().id
    assert others(state) == ()
    gauge = gauge_of(state, actual, NOW + 9)
    assert isinstance(gauge.term("allocated").bytes, Stale)
    assert "ended" in gauge.term("process").bytes.reason  # type: ignore[union-attr]
    lines = [
        plain(line)
        for line in process_lines(actual, gauge, state.machine.devices[0], None, NOW, 80)
    ]
    assert "the process has ended" in lines[0]
    # No reason stands between the branches of the account.
    start = next(at for at, row in enumerate(lines) if row.startswith("total "))
    end = next(at for at, row in enumerate(lines) if row.startswith("\u2514 free"))
    assert all(row[:1] in "\u251c\u2502\u2514" for row in lines[start + 1 : end])
    # Why all of them are old is said once.
    words = " ".join(" ".join(lines).split())
    assert words.count("s old: the process has ended") == 1
    assert "reserved: 9 s old: the process has ended" in words
    # A fraction of a second is no age.
    gauge = gauge_of(state, actual, NOW + 0.5)
    lines = [
        plain(line)
        for line in process_lines(actual, gauge, state.machine.devices[0], None, NOW, 80)
    ]
    assert "0 s old" not in " ".join(lines)
    assert "the process has ended" in " ".join(lines)


def explain_end(*more: object, at_oom: TorchMemory | None = None) -> str:
    """Return the sentences on the memory of a process that has ended."""
    state = watched(*more, told())
    actual = allocator(state)
    view = next(item for item in state.machine.devices if item.key == actual.placed.id)
    sample = state.machine.sample
    gauge = account_of(actual, view, sample, MemoryPoint(0.0), NOW + 29, at_oom)
    return " ".join(gauge.explanation)


def test_the_account_of_a_process_that_has_ended_is_that_of_its_last_reading() -> None:
    words = explain_end()
    assert "was last read, nvidia-smi showed 20.7 GiB in use; live tensors used 2.0 GiB" in words
    assert "1.5 GiB was torch's cache: freed, and kept for new tensors (reserved 3.5 GiB)." in words
    assert "614 MiB was this process's CUDA context" in words
    for present in ("shows", "emptying", " is torch's", " is used", "belongs"):
        assert present not in words


def test_what_an_exception_freed_is_told_as_it_was_at_the_oom() -> None:
    at_oom = replace(figures(), allocated=3 * GIB, requested=3 * GIB)
    words = explain_end(at_oom=at_oom)
    assert "live tensors used 3.0 GiB of it at its OOM" in words
    assert "512 MiB was torch's cache" in words


@pytest.mark.parametrize(
    ("oom", "words"),
    [
        (False, "When it was last read, live tensors used 2.0 GiB of the 3.5 GiB that torch had"),
        (True, "At its OOM, live tensors used 3.0 GiB of the 3.5 GiB that torch had reserved. "),
    ],
)
def test_a_stored_run_tells_of_its_process_in_the_past_too(oom: bool, words: str) -> None:
    state = watched(told())
    at_oom = replace(figures(), allocated=3 * GIB, requested=3 * GIB) if oom else None
    why = "the figures are recorded"
    _, gauge = account_in(state.machine, allocator(state), NOW + 9, why, at_oom=at_oom)
    said = " ".join(gauge.explanation)
    assert said.startswith(f"The process has ended. {words}")
    assert "The used memory is unknown: the figures are recorded." in said
    assert "MiB was torch's cache" in said or "GiB was torch's cache" in said
    assert "emptying" not in said


def test_the_present_memory_of_the_gpu_is_told_apart_from_that_of_the_ended_process() -> None:
    later = sample(gpu(processes=(), memory_read=(NOW + 1, NOW + 1.1)), at=NOW + 1.1)
    changed = said(figures(at=NOW + 0.9, reserved=4 * GIB, reserved_allocated=4 * GIB))
    words = explain_end(changed, later, said())
    assert words.startswith(
        "The process has ended. When it was last read, live tensors used 2.0 GiB of the 4.0 GiB "
        "that torch had reserved. Now nvidia-smi shows 20.7 GiB in use."
    )
    assert "this process" not in words


def test_a_process_that_runs_another_program_is_another_process() -> None:
    state = watched()
    before = allocator(state)
    state.publish(told(torch_process(command="python other.py", reason="CUDA is not used yet")))
    assert before.ended == "the process runs another program"
    assert state.machine.allocators is not None
    assert state.machine.allocators.find(KEY) is None
    state.publish(said(figures(allocated=MIB, reserved_allocated=2 * MIB)))
    assert len(allocator(state).recent) == 1


def test_counts_that_begin_anew_are_of_another_program() -> None:
    state = watched()
    before = allocator(state)
    state.publish(said(figures(at=NOW + 1, reserved_allocated=MIB)))
    assert allocator(state) is not before
    assert before.ended


def test_those_that_have_ended_are_not_kept_without_end() -> None:
    many = [torch_process(pid) for pid in range(100, 140)]
    state = make_store("one gpu", told(*many), said(*(figures(item.pid) for item in many)), told())
    assert state.machine.allocators is not None
    assert len(state.machine.allocators.allocators()) == MOST_ENDED


def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    state = watched()
    assert state.machine.allocators is not None
    assert state.machine.allocators.on(gpu().id, STRANGER, START) is not None
    assert state.machine.allocators.on(gpu().id, STRANGER, START + 500) is None
    assert state.machine.allocators.process(STRANGER, START + 500) is None


# ---- the account of a device ----


def test_what_others_hold_is_split_where_nvml_and_torch_are_of_one_moment() -> None:
    (other,) = others(watched())
    assert (other.pid, other.command) == (STRANGER, "python train.py")
    assert other.parts == tuple(
        zip(OTHER_PARTS, (2 * GIB, int(1.5 * GIB), int(4.1 * GIB) - int(3.5 * GIB)), strict=True)
    )
    assert get_value(other.peak) == 3 * GIB


def test_while_reserved_moves_nothing_is_subtracted() -> None:
    moved = figures(reserved=4 * GIB, reserved_allocated=4 * GIB)
    (other,) = others(make_store("one gpu", *STORY[:-1], said(moved)))
    assert isinstance(other.context, Absent)
    assert other.context.short == "changing"
    assert other.parts == ()
    assert get_value(other.allocated) == 2 * GIB


def test_a_first_reading_after_nvml_s_is_not_called_changing() -> None:
    found, _, sampled, first = STORY
    (other,) = others(make_store("one gpu", found, sampled, first))
    assert isinstance(other.context, Absent)
    assert other.context.short == "unread"


def test_figures_that_nobody_has_read_again_are_old() -> None:
    (other,) = others(watched(), NOW + 30)
    assert isinstance(other.allocated, Stale)
    assert other.allocated.reason == OLD


def test_our_own_processes_are_no_others() -> None:
    state = watched()
    state.publish(told(torch_process(), torch_process(WORKER)))
    assert [item.pid for item in others(state)] == [STRANGER]


@given(st.integers(0, 4 * GIB), st.integers(0, 4 * GIB), st.integers(4, 200))
def test_a_bar_is_as_wide_as_it_was_and_shows_the_parts_where_there_is_room(
    allocated: int, cached: int, cells: int
) -> None:
    held = figures(allocated=allocated, active=allocated, reserved=allocated + cached)
    state = make_store(
        "one gpu",
        STORY[0],
        said(replace(held, at=NOW - 0.5)),
        seen(NOW - 0.2, held=allocated + cached + GIB // 2),
        said(held),
    )
    gauge = account(state.machine, state.machine.selected_device, NOW)
    bar = plain(bar_line(gauge, cells))
    assert len(bar) == cells
    share = (allocated + cached + GIB // 2) * cells / (get_value(gauge.total) or 1)
    drawn = [GLYPHS.slices[key] in bar for key, size in gauge.others[0].parts if size]
    if share < 2.9:
        assert not any(drawn)
    legend = "".join(plain(line) for line in legend_lines(gauge, cells))
    assert not {*bar} & {*map(GLYPHS.slices.get, OTHER_PARTS)} - {*legend}


def test_another_process_is_one_line_and_what_has_no_room_is_counted() -> None:
    held = [replace(others(watched())[0], pid=pid) for pid in range(5)]
    lines = [plain(line) for line in other_lines(held, 100, 3)]
    assert "allocated 2.0G" in lines[0]
    assert "cached 1.5G" in lines[0]
    assert "context" in lines[0]
    (narrow,) = (plain(line) for line in other_lines(held[:1], 56))
    assert "context" not in narrow
    assert "cached 1.5G" in narrow
    assert narrow.endswith(shorten_command(held[0].command or ""))
    assert "3 more torch processes" in lines[2]
    assert len(other_lines(held, 100)) == 5


# ---- its own account ----


def test_the_account_of_another_process_is_that_of_the_worker_in_its_words() -> None:
    state = watched(said(figures(ooms=2, alloc_retries=3)))
    gauge = gauge_of(state, allocator(state))
    assert get_value(gauge.term("context").bytes) == int(4.1 * GIB) - int(3.5 * GIB)
    assert get_value(gauge.term("others").bytes) == int(16.6 * GIB)
    known = sum(get_value(part.bytes) or 0 for part in gauge.known)
    assert known == get_value(gauge.total)
    text = " ".join((*gauge.warnings, *gauge.explanation))
    assert "2 times since the process began" in text
    assert "run" not in text.replace("running", "")


def test_a_busy_runner_has_the_counts_and_the_workspaces_of_its_last_report() -> None:
    state = watched(said(figures(ooms=2, alloc_retries=3)))
    actual, view = allocator(state), state.machine.devices[0]
    sample, nothing = state.machine.sample, MemoryPoint(0.0)
    whole_life = account_of(actual, view, sample, nothing, NOW)
    assert any("out of memory 2 times" in warning for warning in whole_life.warnings)
    reported = replace(actual.figures, ooms=0, alloc_retries=0, workspace=64 * MIB)
    gauge = account_of(actual, view, sample, nothing, NOW, reported=reported)
    assert not any("out of memory" in warning for warning in gauge.warnings)
    assert [get_value(counter.count) for counter in gauge.counters] == [0, 0]
    allocated = get_value(whole_life.term("allocated").bytes)
    assert get_value(gauge.term("workspace").bytes) == 64 * MIB
    assert get_value(gauge.term("allocated").bytes) == (allocated or 0) - 64 * MIB
    for key in ("reserved", "cached", "context"):
        assert gauge.term(key).bytes == whole_life.term(key).bytes


def test_where_nobody_knows_the_gpu_there_is_no_bar_and_the_figures_remain() -> None:
    state = make_store("one gpu", told(torch_process(4711)), said(figures(4711)))
    assert state.machine.allocators is not None
    (actual,) = state.machine.allocators.allocators()
    gauge = account_of(actual, None, state.machine.sample, MemoryPoint(0.0), NOW)
    assert "does not list process 4711" in plain(bar_line(gauge, 200))
    assert get_value(gauge.term("allocated").bytes) == 2 * GIB
    assert process_history(gauge, RecentReadings(actual.recent, state.machine.sample, NOW), 80, 7)


def test_the_histories_of_a_process_have_one_scale_just_above_the_highest() -> None:
    state = watched(*(said(figures(at=NOW + at, allocated=GIB)) for at in range(90)))
    actual = allocator(state)
    gauge = gauge_of(state, actual, NOW + 90)
    recent = RecentReadings(actual.recent, state.machine.sample, NOW + 90)
    rule, *rows = [plain(row) for row in process_history(gauge, recent, 80, 13)]
    assert "zoomed, last" in rule
    tops = {tuple(row.split()[1:3]) for row in rows if "GiB" in row}
    assert tops == {("6.0", "GiB")}


def test_growth_is_a_sentence_with_its_source() -> None:
    state = watched(
        *(said(figures(at=NOW + at, allocated=2 * GIB + at * 5 * MIB)) for at in range(90))
    )
    actual = allocator(state)
    gauge = gauge_of(state, actual, NOW + 90)
    text = " ".join(
        plain(line) for line in process_lines(actual, gauge, state.machine.devices[0], 1, NOW, 90)
    )
    assert "allocated grows 300 MiB/min" in text
    assert "read from outside" not in text
    dialog = account_details(gauge, state.machine.devices[0], 90, actual.findings)
    assert (
        f"over {actual.findings[0].text.split(' over ')[-1]} (all of the process's tensors: torch's"
        in " ".join(" ".join(map(plain, dialog)).split())
    )


# ---- the table ----


def test_a_torch_process_has_its_allocators_figures_beside_nvmls() -> None:
    state = watched()
    row = next(row for row in rows(state) if row.pid == STRANGER)
    words = plain(process_line(row, NOW, 200, torch=True)).split()
    assert words[:13] == [
        *(str(STRANGER), "ada", "cuda:0", "4.1", "GiB", "2.0", "GiB", "1.5", "GiB"),
        *("614", "MiB", "3.0", "GiB"),
    ]
    assert "torch 2.13.0+cu130: allocated 2.0 GiB" in " ".join(map(plain, selected_lines(row, 200)))


@pytest.mark.parametrize("cells", [60, 78, 118, 198])
def test_headings_stand_above_their_figures(cells: int) -> None:
    state = watched()
    row = next(row for row in rows(state) if row.pid == STRANGER)
    head, line = (
        plain(heading("memory", cells, torch=True)),
        plain(process_line(row, NOW, cells, torch=True)),
    )
    at = head.index("allocated")
    assert line[at : at + len("allocated")].strip() == "2.0 GiB"
    names = [item.column.name for item in columns(cells, of_host=False, torch=True)]
    assert ("ooms" in names) == (cells > 126)
    without = {item.column.name for item in columns(cells, of_host=False)}
    assert not without & {"allocated", "cached", "context", "peak", "retries", "ooms"}


def test_what_may_not_be_read_has_one_word_in_its_row_and_a_sentence_below() -> None:
    refused = torch_process(
        reason="it is run by bob (uid 7): only that user and root may read it",
        word="denied",
        advice="sudo gpu-workbench watch --pid 1",
        refused=True,
    )
    state = make_store("one gpu", told(refused))
    row = next(row for row in rows(state) if row.pid == STRANGER)
    assert "denied" in plain(process_line(row, NOW, 78, torch=True))
    wide = plain(process_line(row, NOW, 160, torch=True))
    assert "denied" in wide
    assert glyphs.GLYPHS.ellipsis not in wide.partition("python")[0]
    below = " ".join(map(plain, selected_lines(row, 200)))
    assert "only that user and root may read it; sudo gpu-workbench watch --pid 1" in below
    assert "not split: denied" in plain(other_lines(others(state), 80)[0])
    # NVML does list it, so no note is needed.
    assert unread_notes(state.machine.allocators) == []  # type: ignore[arg-type]


def test_ranks_that_nvml_does_not_list_stand_below_their_launcher() -> None:
    ranks = [
        torch_process(
            5000 + rank, rank=rank, world_size=2, launcher="torchrun", launched_by=TORCHRUN
        )
        for rank in range(2)
    ]
    state = make_store(
        "one gpu",
        sample(gpu(processes=())),
        told(*ranks, torch_process(6000, ours=True)),
        said(*(figures(item.pid) for item in ranks), figures(6000)),
    )
    actual = [row for row in rows(state) if row.pid]
    lines = [plain(process_line(row, NOW, 160, torch=True)) for row in actual]
    assert [row.pid for row in actual] == [900, 5000, 5001]
    assert "torchrun train.py" in lines[0]
    assert "4.0 GiB" in lines[0]
    assert "rank 0/2 python train.py" in lines[1]
    assert "n/a" in lines[1]


def test_where_nvml_lists_nobody_it_is_said_who_is_not_read() -> None:
    refused = torch_process(reason="this root has no CAP_SYS_PTRACE", refused=True, advice="ask")
    state = make_store("one gpu", sample(gpu(processes=())), told(refused))
    assert state.machine.allocators is not None
    assert unread_notes(state.machine.allocators) == [
        "1 torch process is not read: this root has no CAP_SYS_PTRACE; ask"
    ]
    state.publish(WatchStatus("restarting", "the watch ended: signal 9; it is restarted"))
    assert "the watch ended" in unread_notes(state.machine.allocators)[0]


def test_a_store_that_forgets_forgets_the_watch() -> None:
    state = watched()
    state.forget()
    assert state.machine.allocators is None
