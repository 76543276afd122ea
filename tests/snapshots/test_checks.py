"""A file that contradicts itself is told so, and nothing is said of one that does not."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import run_here
from tests.snapshots import raw
from tests.snapshots.raw import BASE
from tui.kit.lines import plain
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.summary import check
from tui.snapshots.model.results import FileInfo
from tui.snapshots.model.snapshot import Snapshot
from tui.snapshots.read.load import load
from tui.snapshots.read.normalise import TraceFilter, normalise
from tui.snapshots.views.overview import file_lines

FILES = sorted((Path(__file__).parent / "files").glob("*.pickle"))


def _checked(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the problems found, the same with the tables of allocations and without."""
    walked: list[str] = []
    for device in snapshot.devices:
        walked += check(device)
    assert Analysis(snapshot).faults == tuple(walked)
    return tuple(walked)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_files_are_sound(path: Path) -> None:
    snapshot = load(path)
    assert _checked(snapshot) == ()
    assert all(device.allocations.sound for device in Analysis(snapshot).devices.values())


def test_a_sound_file_is_sound() -> None:
    assert _checked(normalise(raw.snapshot())) == ()


def _segment(objects: dict[str, Any]) -> dict[str, Any]:
    segment: dict[str, Any] = objects["segments"][0]
    return segment


def _gap(objects: dict[str, Any]) -> None:
    _segment(objects)["blocks"][1]["address"] += 512


def _short(objects: dict[str, Any]) -> None:
    del _segment(objects)["blocks"][1]


def _sum(objects: dict[str, Any]) -> None:
    _segment(objects)["active_size"] += 512


def _overlap(objects: dict[str, Any]) -> None:
    objects["segments"].append(raw.segment(BASE + 2560))


def _greedy(objects: dict[str, Any]) -> None:
    _segment(objects)["blocks"][0]["requested_size"] = 2000
    _segment(objects)["requested_size"] = 2000
    objects["device_traces"] = []


def _twice(objects: dict[str, Any]) -> None:
    objects["device_traces"][0].insert(4, raw.entry("alloc", BASE, 1000, 3))


def _freed_twice(objects: dict[str, Any]) -> None:
    objects["device_traces"][0].append(raw.entry("free_completed", BASE + 1024, 700, 7))


def _other_size(objects: dict[str, Any]) -> None:
    objects["device_traces"][0][6]["size"] = 701


def _back(objects: dict[str, Any]) -> None:
    objects["device_traces"][0][4]["time_us"] -= 3


def _lost(objects: dict[str, Any]) -> None:
    objects["device_traces"][0].append(raw.entry("alloc", BASE + 1024, 700, 7))


def _undead(objects: dict[str, Any]) -> None:
    objects["device_traces"][0].append(raw.entry("free_completed", BASE, 1000, 7))


def _resized(objects: dict[str, Any]) -> None:
    objects["device_traces"][0][3]["size"] = 999


def _no_frees(objects: dict[str, Any]) -> None:
    entries = objects["device_traces"][0]
    entries[:] = [entry for entry in entries if not entry["action"].startswith("free")]
    entries.append(raw.entry("alloc", BASE + 1024, 400, 8))


def _more_live_than_reserved(objects: dict[str, Any]) -> None:
    # Freed in the trace, and large, while no segment that could have held it was ever allocated.
    far = BASE + (1 << 40)
    objects["device_traces"][0][:0] = [
        raw.entry("free_requested", far, 2 << 30, -2),
        raw.entry("free_completed", far, 2 << 30, -1),
    ]


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], None], tuple[str, ...]]] = {
    "a gap": (_gap, ("blocks do not follow each other (1): gap of 512 B before 0x7f0000000600",)),
    "a missing block": (_short, ("fill their segment (1): 0x7f0000000000 1.0 KiB in 4.0 KiB",)),
    "a wrong sum": (_sum, ("add up to the active_size that their segment states (1): 0x7f00",)),
    "overlapping segments": (_overlap, ("segments overlap (1): 0x7f0000000a00 and 0x7f00",)),
    "a block below what was asked": (_greedy, ("blocks smaller than the request (1)",)),
    "allocated twice": (_twice, ("allocated where something is live (1): 0x7f0000000000",)),
    "freed twice": (_freed_twice, ("freed twice (1): 0x7f0000000400",)),
    "freed with another size": (_other_size, ("0x7f0000000400 700 B, then 701 B",)),
    "time that runs back": (_back, ("time runs back 1 time",)),
    "live, but no block": (_lost, ("allocated in the trace, but not active at the end (1)",)),
    "freed, but a block": (_undead, ("freed in the trace, but active at the end (1)",)),
    "a block of another size": (_resized, ("999 B, then 1.0 KiB",)),
    "more live than reserved": (
        _more_live_than_reserved,
        ("the trace is inconsistent: live memory peaks at 2.0 GiB, above the 4.0 KiB that were",),
    ),
    "frees left out": (_no_frees, ("no frees recorded (skip_actions)",)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_contradiction_is_one_line(what: str) -> None:
    damage, words = BROKEN[what]
    objects = raw.snapshot()
    damage(objects)
    lines = _checked(normalise(objects))
    assert len(lines) == len(words), lines
    for line, entry in zip(lines, words, strict=True):
        assert line.startswith("device 0: ")
        assert entry in line


def test_many_of_a_kind_are_counted() -> None:
    objects = [raw.segment(BASE + 8192 * number) for number in range(15)]
    for segment in objects:
        segment["allocated_size"] = 1
    (line,) = _checked(normalise(objects))
    assert "(15): " in line
    assert line.endswith("; 12 more")


def test_an_address_used_again_is_no_contradiction() -> None:
    objects = raw.snapshot()
    objects["device_traces"][0] += [
        raw.entry("free_requested", BASE, 1000, 7),
        raw.entry("free_completed", BASE, 1000, 8),
        raw.entry("alloc", BASE, 1000, 9),
    ]
    assert _checked(normalise(objects)) == ()


def test_what_a_filter_took_away_is_not_held_against_the_file() -> None:
    for keep in (TraceFilter(first=3), TraceFilter(last=4), TraceFilter(minimal_size=800)):
        assert _checked(normalise(raw.snapshot(), trace_filter=keep)) == ()


def test_devices_are_distinguished() -> None:
    objects = raw.snapshot()
    objects["segments"].append(raw.segment(BASE, 1))
    objects["device_traces"].append(raw.trace()[:4])
    assert _checked(normalise(objects)) == ()


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
def test_every_output_warns_of_an_inconsistent_trace(tmp_path: Path, form: tuple[str, ...]) -> None:
    objects = raw.snapshot()
    _more_live_than_reserved(objects)
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps(objects))
    done = run_here("snapshot", str(path), *form)
    assert "the trace is inconsistent" in " ".join((done.out + done.err).split())


def test_the_screen_warns_of_an_inconsistent_trace() -> None:
    objects = raw.snapshot()
    _more_live_than_reserved(objects)
    info = FileInfo("memory.pickle", "pickle", "snapshot", 1, {}, _checked(normalise(objects)), 0)
    drawn = " ".join(" ".join(map(plain, file_lines(info, 80))).split())
    assert "! device 0: the trace is inconsistent: live memory peaks at 2.0 GiB" in drawn


@pytest.mark.parametrize(
    "arguments",
    ["diff --json --peak {0} {0}", "diff {0} --json --peak {0}", "--json --peak diff {0} {0}"],
)
def test_the_options_of_a_comparison_stand_anywhere(arguments: str) -> None:
    path = str(FILES[0])
    done = run_here("snapshot", *arguments.format(path).split(" "))
    assert done.code == 0, done.err
    assert json.loads(done.out)["a"].endswith(FILES[0].name)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("x --peak", "--peak compares the peaks of two files: snapshot diff A B --peak"),
        ("--at 3 diff x x", "--at is for one file: snapshot FILE --at"),
        ("--oom-text x diff x x", "--oom-text is for one file"),
        ("diff --at 3 x x", "no option --at"),
        ("diff x", "required: B; see gpu-workbench snapshot diff --help"),
        ("diff x x x", "too many arguments: x"),
    ],
)
def test_options_without_an_effect_are_refused(arguments: str, reason: str) -> None:
    done = run_here("snapshot", *arguments.split(" "))
    assert done.code == 2
    assert reason in done.err


def test_the_comparison_has_a_help_of_its_own() -> None:
    done = run_here("snapshot", "diff", "--help")
    assert done.code == 0
    assert "gpu-workbench snapshot diff" in done.out
    assert "--at" not in done.out
