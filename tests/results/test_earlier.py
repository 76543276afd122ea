"""What earlier sessions measured: found for this box and GPU alone, and what a run is held to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.results.samples import BEGAN, FACTS, HOUR, kept
from tests.screens.app_helpers import running
from tests.screens.helpers import NOW, gpu, host, make_store, sample, torch_gpu, uuid
from tests.screens.results import ran
from tui.core.events import LogLine
from tui.kit.lines import plain
from tui.recordings import lines
from tui.results.store.database import Database
from tui.results.store.earlier import EarlierSessions
from tui.results.store.recorder import ResultHistory, ResultRecorder
from tui.results.store.records import StoredResult
from tui.runs.state.events import ComparedWithEarlier, EarlierRead, ParametersSet
from tui.runs.state.runs import Against, EarlierResult, EarlierResults
from tui.runs.state.state import WorkbenchState
from tui.runs.views.brief import format_earlier
from tui.runs.views.detail import detail_lines
from tui.runs.views.search import build_entries
from tui.runs.views.workload_columns import draw_entry, fit_workload_columns
from tui.runs.views.workload_table import build_row
from workloads.protocol import messages
from workloads.protocol.results import UNTRUSTED, Setting
from workloads.protocol.wire import field_values

LATER = BEGAN + 5000.0
"""After all that :func:`kept` makes here."""
DAY_S = 86_400.0


def _filled(place: Path, *ones: StoredResult) -> Path:
    with Database(place, writing=True) as database:
        database.add(ones)
    return place


def test_the_newest_of_each_setting_on_this_box_and_gpu_is_found(tmp_path: Path) -> None:
    place = _filled(
        tmp_path / "r",
        kept(1, median=3e-3),
        kept(2, median=2e-3, facts={"driver": "590.1"}),
        kept(3, median=9e-3, facts={"box": "beta"}),
        kept(4, median=8e-3, facts={"gpu uuid": "GPU-2"}),
        kept(5, median=7e-3, parameters={"n": 64}),
        kept(6, median=6e-3, workload="conv2d", device="cpu", facts={"gpu uuid": ""}),
        kept(4500, median=1e-3),
    )
    found = EarlierSessions(place, BEGAN + 4000.0).read_newest("alpha")
    assert {(one.workload, one.gpu, one.used["n"], one.median_s) for one in found} == {
        ("matmul", "GPU-1", 4096, 2e-3),
        ("matmul", "GPU-2", 4096, 8e-3),
        ("matmul", "GPU-1", 64, 7e-3),
        ("conv2d", "", 4096, 6e-3),
    }
    newest = next(one for one in found if one.median_s == 2e-3)
    assert (newest.driver, newest.torch, newest.at) == ("590.1", FACTS["torch"], BEGAN + 2)
    assert EarlierSessions(place, BEGAN + 3).read_newest("beta") == ()
    assert EarlierSessions(tmp_path / "none", LATER, traceless=True).read_newest("alpha") == ()


def test_a_warning_not_to_trust_a_stored_time_is_found_with_it(tmp_path: Path) -> None:
    warning = f"other programs used 2 cores: {UNTRUSTED}"
    place = _filled(
        tmp_path / "r",
        kept(1, warnings=(warning,)),
        kept(2, workload="conv2d", warnings=("noisy",)),
    )
    found = EarlierSessions(place, LATER).read_newest("alpha")
    assert {one.workload: one.trusted for one in found} == {"matmul": False, "conv2d": True}


def test_a_failed_run_stands_for_its_setting_until_one_succeeds(tmp_path: Path) -> None:
    place = _filled(
        tmp_path / "r",
        kept(1, workload="norm", median=3e-3),
        kept(2, workload="norm", status="failed"),
        kept(3, workload="conv2d", status="failed"),
        kept(4, workload="conv2d", median=2e-3),
        kept(5, workload="fft", status="skipped"),
    )
    found = EarlierResults(EarlierSessions(place, LATER).read_newest("alpha"))
    norm, conv2d, fft = (
        found.find(name, "GPU-1", {"n": 4096}) for name in ("norm", "conv2d", "fft")
    )
    assert norm is not None
    assert (norm.failure, norm.median_s, norm.ci95_s) == ("failed", None, None)
    assert conv2d is not None
    assert (conv2d.failure, conv2d.median_s) == ("", 2e-3)
    assert fft is None


def test_what_was_left_to_the_workload_is_found_by_what_was_asked_for(tmp_path: Path) -> None:
    one = kept(1, workload="linalg", parameters={"n": 0})
    assert one.record.run is not None
    chosen = {"n": 8192}
    record = one.record.__class__(
        **{**field_values(one.record), "parameters": cast("dict[str, Setting]", chosen)}
    )
    place = _filled(tmp_path / "r", StoredResult(record, one.facts))
    (found,) = EarlierSessions(place, LATER).read_newest("alpha")
    assert found.is_of({"n": 0})
    assert found.is_of({"n": 8192})
    assert not found.is_of({"n": 4096})


def test_a_look_without_trace_changes_nothing_beside_a_writer_or_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    place = _filled(folder / "r", kept(1))

    def state() -> object:
        files = {each.name: each.stat() for each in (folder, *folder.iterdir())}
        return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in files.items()}

    before = state()
    assert len(EarlierSessions(place, LATER, traceless=True).read_newest("alpha")) == 1
    assert state() == before
    with Database(place, writing=True) as writer:
        writer.add([kept(2, workload="conv2d")])
        before = state()
        assert len(EarlierSessions(place, LATER, traceless=True).read_newest("alpha")) == 2
        assert state() == before


# ---- what a run is held to ---------------------------------------------------------------------


def _held(place: Path, *runs: StoredResult) -> Against | None:
    return EarlierSessions(place, BEGAN + 4000.0).compare_stored(runs)


def test_three_sessions_are_held_against_three_and_one_is_unclear(tmp_path: Path) -> None:
    place = _filled(
        tmp_path / "r",
        *(kept(-number * HOUR, median=1e-3 * (1 + number / 1000)) for number in range(5)),
    )
    mine = [
        kept(4100 + number * HOUR, median=1.1e-3 * (1 + number / 1000), facts={"driver": "590.1"})
        for number in range(3)
    ]
    found = _held(place, *mine)
    assert found is not None
    assert (found.verdict, found.runs, found.at) == ("slower", (5, 3), BEGAN)
    assert found.ratio == pytest.approx(1 / 1.1, rel=0.01)
    assert found.differences == ("driver 580.65.06 → 590.1",)
    # Three runs within a minute are one session.
    at_once = [kept(4100 + number, median=1.1e-3, facts={"driver": "590.1"}) for number in range(3)]
    for runs, varies in ((mine[:1], 0.003), (at_once, 0.0026)):
        found = _held(place, *runs)
        assert found is not None
        assert (found.verdict, found.ci95, found.runs) == ("unclear", None, (5, len(runs)))
        assert found.varies == pytest.approx(varies, rel=0.1)


def test_nothing_is_held_against_another_box_another_gpu_or_another_setting(
    tmp_path: Path,
) -> None:
    place = _filled(tmp_path / "r", kept(1))
    for other in (
        kept(4100, facts={"box": "beta"}),
        kept(4100, facts={"gpu uuid": "GPU-2"}),
        kept(4100, parameters={"n": 64}),
        kept(4100, device="cpu"),
        kept(4100, workload="conv2d"),
    ):
        assert _held(place, other) is None
    assert _held(place, kept(4100, device="cuda:3")) is not None


def test_runs_with_the_same_flags_are_preferred(tmp_path: Path) -> None:
    place = _filled(
        tmp_path / "r",
        kept(1, facts={"flag cudnn.benchmark": "on"}),
        kept(2, facts={"flag cudnn.benchmark": "off"}),
    )
    found = _held(place, kept(4100, facts={"flag cudnn.benchmark": "on"}))
    assert found is not None
    assert (found.at, found.differences) == (BEGAN + 1, ())


def test_results_of_this_session_are_not_earlier_ones_though_a_clock_says_so(
    tmp_path: Path,
) -> None:
    # A stored run of this session whose figures have left its memory, and the run to compare.
    old, run = kept(1, median=5e-3, process="own"), kept(2, process="own")
    place = _filled(tmp_path / "r", old, run)
    assert EarlierSessions(place, LATER, ["own"]).compare_stored([run]) is None
    # Without the names of the runners, the run is still not compared with itself.
    assert EarlierSessions(tmp_path / "one", LATER).compare_stored([run]) is None
    found = EarlierSessions(place, LATER).compare_stored([run])
    assert found is not None
    assert (found.runs, found.at) == ((1, 1), BEGAN + 1)


# ---- a session ---------------------------------------------------------------------------------


def _here(number: int, median: float = 1e-3) -> StoredResult:
    """As it is measured on the box and the GPU of :func:`make_store`."""
    facts = {"box": "gpu-box-3", "gpu uuid": uuid(0), "flag cudnn.benchmark": "off"}
    parameters: dict[str, Setting] = {"size": 4096, "dtype": "float32"}
    return kept(number, median=median, facts=facts, parameters=parameters)


async def test_a_session_hears_of_earlier_ones_and_of_how_its_runs_compare(
    tmp_path: Path,
) -> None:
    place = _filled(tmp_path / "r", _here(1), _here(2), _here(3))
    heard: list[object] = []
    state = make_store("one gpu")

    def apply(event: object) -> None:
        heard.append(event)
        state.publish(event)

    sessions = ResultHistory(place)
    await sessions.read(state.runs, apply)
    (said,) = heard
    assert isinstance(said, EarlierRead)
    assert [one.at for one in said.results] == [BEGAN + 3]
    *_, ended = ran("matmul", "cuda:0", median=2e-3)
    for event in ran("matmul", "cuda:0", median=2e-3):
        state.publish(event)
    assert isinstance(ended, messages.Finished)
    await sessions.compare(ended.result.id, state.runs, apply)
    held = heard[-1]
    assert isinstance(held, ComparedWithEarlier)
    assert (held.against.runs, held.against.verdict) == ((3, 1), "unclear")
    assert state.runs.book[ended.result.id].against == held.against


async def _compare_on_host(
    history: ResultHistory, place: Path, ahead_s: float, *stored: StoredResult
) -> list[object]:
    """Return the events of reading and comparing on a host whose clock differs by a time."""
    _filled(place, *stored)
    heard: list[object] = []
    state = make_store("one gpu")
    state.machine.clock_ahead_s = ahead_s

    def apply(event: object) -> None:
        heard.append(event)
        state.publish(event)

    await history.read(state.runs, apply)
    for event in ran("matmul", "cuda:0", median=2e-3):
        state.publish(event)
    await history.compare(next(iter(state.runs.book)), state.runs, apply)
    return heard


@pytest.mark.parametrize("ahead_s", [-60.0, 60.0])
async def test_earlier_means_earlier_by_the_clock_of_the_host(
    tmp_path: Path, ahead_s: float
) -> None:
    history = ResultHistory(tmp_path / "r")
    history.began = BEGAN + 100
    limit = round(100 + ahead_s)
    found = await _compare_on_host(
        history, tmp_path / "r", ahead_s, _here(limit - 5), _here(limit + 5, median=9e-3)
    )
    read, compared = found
    assert isinstance(read, EarlierRead)
    assert (read.at, [one.at for one in read.results]) == (BEGAN + limit, [BEGAN + limit - 5])
    assert isinstance(compared, ComparedWithEarlier)
    assert (compared.against.runs, compared.against.at) == ((1, 1), BEGAN + limit - 5)


async def test_what_this_session_stored_is_not_earlier_after_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    recorder = ResultRecorder(tmp_path / "r")
    recorder.processes["own"] = None
    history = ResultHistory(tmp_path / "r", recorder)
    history.began = LATER
    earlier, own = _here(1), _here(2, median=9e-3)
    own = replace(own, record=replace(own.record, process="own"))
    *_, compared = await _compare_on_host(history, tmp_path / "r", 0.0, earlier, own)
    assert isinstance(compared, ComparedWithEarlier)
    assert (compared.against.runs, compared.against.at) == ((1, 1), BEGAN + 1)


async def test_a_store_that_cannot_be_read_is_one_line_of_the_log(tmp_path: Path) -> None:
    place = tmp_path / "r"
    place.write_bytes(b"rubbish" * 1000)
    heard: list[object] = []
    sessions = ResultHistory(place)
    for _ in range(2):
        await asyncio.wait_for(sessions.read(make_store().runs, heard.append), 30)
    (line,) = heard
    assert isinstance(line, LogLine)
    assert "it is damaged; move it away" in line.text


def test_a_recording_has_what_was_shown_of_earlier_sessions() -> None:
    against = Against(NOW, "slower", 0.9, (0.8, 0.95), (5, 3), 0.02, ("driver 1 → 2",))
    for said in (
        EarlierRead(NOW, (_earlier(), _earlier(""))),
        ComparedWithEarlier("run-1", against),
    ):
        written = lines.encode_event(1.0, said)
        assert lines.decode_event(lines.parse_line(written)) == said


# ---- in the table ------------------------------------------------------------------------------


def _earlier(on: str = uuid(0), days: float = 2.0, **changes: object) -> EarlierResult:
    values: dict[str, object] = {
        "workload": "matmul",
        "gpu": on,
        "requested": {"size": 4096, "dtype": "float32"},
        "used": {"size": 4096, "dtype": "float32"},
        "at": NOW - days * DAY_S,
        "median_s": 2.714e-3,
        "ci95_s": (2.713e-3, 2.715e-3),
        "driver": "580.65.06" if on else "",
        "torch": "2.12.1",
        **changes,
    }
    return EarlierResult(**values)  # type: ignore[arg-type]


def _shown(state: WorkbenchState, cells: int) -> str:
    found = build_entries(state.runs)
    chosen = fit_workload_columns(state.runs, found, cells)
    return next(
        plain(draw_entry(one, chosen, under_cursor=False))
        for one in found
        if getattr(one, "workload", "") == "matmul"
    )


def test_a_sentence_of_what_is_not_known_of_the_software_ends_with_the_age() -> None:
    state = make_store()
    assert format_earlier(state.runs, _earlier(torch="", driver="")).endswith(" ago")
    assert format_earlier(state.runs, _earlier(driver="")).endswith(" ago with torch 2.12.1")


@pytest.mark.parametrize("cells", [79, 119, 199])
def test_an_old_figure_stands_in_parentheses_and_with_its_age(cells: int) -> None:
    told = EarlierRead(NOW, (_earlier(), _earlier("", median_s=0.412, ci95_s=None)))
    shown = _shown(make_store("one gpu", told), cells)
    assert "(2.71 ms)" in shown
    assert "(412 ms)" in shown
    assert "2 d ago" in shown
    assert "not run" not in shown
    if cells > 79:
        assert "2 d ago, driver 580.65" in shown


def test_an_old_figure_that_is_not_to_be_trusted_keeps_its_mark() -> None:
    doubtful = _earlier(trusted=False)
    assert format_earlier(make_store().runs, doubtful).startswith("! 2.71 ms ")
    state = make_store("one gpu", EarlierRead(NOW, (doubtful,)))
    found = build_row(state.runs, state.runs.catalogue[0])
    assert plain(found.state) == "! 2 d ago, driver 580.65"
    state = make_store("one gpu", EarlierRead(NOW, (doubtful, _earlier("", days=3))))
    found = build_row(state.runs, state.runs.catalogue[0])
    assert plain(found.state) == "cuda:0 2 d, cpu 3 d ago, driver 580.65, ! cuda:0"


@pytest.mark.parametrize("cells", [79, 119, 199])
def test_an_earlier_failure_is_shown_as_one(cells: int) -> None:
    failed = _earlier(median_s=None, ci95_s=None, failure="wrong result: off by 12%")
    state = make_store("one gpu", EarlierRead(NOW, (failed,)))
    shown = _shown(state, cells)
    assert "(failed)" in shown
    assert "failed 2 d ago" in shown
    text = _detail(state)
    assert "earlier failed (wrong result: off by 12%), 2 d ago with driver 580.65.06" in text
    assert "not run; earlier" not in text
    both = make_store("one gpu", EarlierRead(NOW, (failed, _earlier("", days=2))))
    found = build_row(both.runs, both.runs.catalogue[0])
    assert plain(found.state) == "cuda:0 failed 2 d ago, cpu 2 d ago, driver 580.65"


def test_an_old_figure_is_quiet_and_no_ratio_is_made_of_it() -> None:
    state = make_store("one gpu", EarlierRead(NOW, (_earlier(), _earlier("", days=3))))
    info = state.runs.catalogue[0]
    found = build_row(state.runs, info)
    assert {found.cells[name].style.value for name in ("cpu", "cuda:0")} == {"quiet"}
    assert [span.style.value for span in found.state] == ["quiet"]
    assert plain(found.state) == "cuda:0 2 d, cpu 3 d ago, driver 580.65"
    assert found.cells["speed-up"].text == ""
    for event in ran("matmul", "cpu", median=0.412):
        state.publish(event)
    found = build_row(state.runs, info)
    assert found.cells["cpu"].text == "412 ms"
    assert found.cells["cuda:0"].text == "(2.71 ms)"
    assert found.cells["speed-up"].text == ""
    assert plain(found.state).endswith("; 2 d ago, driver 580.65")


def test_only_what_was_measured_on_the_gpu_of_the_column_is_shown() -> None:
    other = sample(gpu(0, id=uuid(7)), host=host())
    state = make_store("one gpu", EarlierRead(NOW, (_earlier(),)))
    assert "ago" in _shown(state, 119)
    for told in (
        (_earlier(torch_gpu(5).uuid or ""),),
        (_earlier(requested={"size": 64}, used={"size": 64}),),
    ):
        state = make_store("one gpu", other, EarlierRead(NOW, told))
        assert "ago" not in _shown(state, 119)
    state = make_store("one gpu", EarlierRead(NOW, (_earlier(),)))
    state.publish(ParametersSet("matmul", {"size": 64, "dtype": "float32"}))
    assert "ago" not in _shown(state, 119)


@pytest.mark.parametrize(
    ("verdict", "ratio", "words"),
    [
        ("slower", 1 / 1.1, "1.10x slower than 2 d ago, ok ±0.4%"),
        ("faster", 1.1, "1.10x faster than 2 d ago, ok ±0.4%"),
        ("same", 1.0, "ok ±0.4%, same: 1.00x as 2 d ago"),
        ("unclear", 1.05, "ok ±0.4%, unclear: 1.05x, 2 d ago"),
    ],
)
def test_a_new_run_says_how_it_compares(verdict: str, ratio: float, words: str) -> None:
    *events, ended = ran()
    assert isinstance(ended, messages.Finished)
    against = Against(NOW - 2 * DAY_S, verdict, ratio, None, (3, 1), 0.027, ("driver 1 → 2",))  # type: ignore[arg-type]
    state = make_store("one gpu", *events, ended, ComparedWithEarlier(ended.result.id, against))
    assert plain(build_row(state.runs, state.runs.catalogue[0]).state) == words
    # The number of warnings is what a narrow table leaves out, not how it compares.
    doubted = replace(ended, result=replace(ended.result, warnings=("not quiet", "throttled")))
    state = make_store("one gpu", *events, doubted, ComparedWithEarlier(ended.result.id, against))
    assert plain(build_row(state.runs, state.runs.catalogue[0]).state) == f"! {words}, 2 warnings"


def test_the_detail_tells_earlier_figures_and_how_a_run_compares_in_full() -> None:
    state = make_store("one gpu", EarlierRead(NOW, (_earlier(),)))
    text = _detail(state)
    assert "earlier: 2.71 ms ±<0.1%, 2 d ago with driver 580.65.06, torch 2.12.1" in text
    *events, ended = ran()
    assert isinstance(ended, messages.Finished)
    for event in (*events, ended):
        state.publish(event)
    few = Against(NOW - 3600, "unclear", 1.02, None, (5, 1), 0.027, ())
    state.publish(ComparedWithEarlier(ended.result.id, few))
    text = _detail(state)
    assert (
        "unclear: 1.02x beside 5 runs of earlier sessions, the last 1 h ago; a verdict needs"
        " three sessions" in text
    )
    assert "variation from run to run: ±2.7%" in text
    many = Against(NOW - 3600, "slower", 0.9, (0.87, 0.93), (5, 3), None, ("driver 1 → 2",))
    state.publish(ComparedWithEarlier(ended.result.id, many))
    text = _detail(state)
    assert "1.11x slower beside 5 runs of earlier sessions, the last 1 h ago" in text
    assert "├" in text
    assert "changed since (not necessarily causes): driver 1 → 2" in text


def _detail(state: WorkbenchState) -> str:
    return " ".join(" ".join(plain(row) for row in detail_lines(state.runs, "matmul", 110)).split())


async def test_the_age_of_an_old_figure_grows_while_nothing_is_run() -> None:
    told = EarlierRead(NOW, (_earlier(days=0.01),))
    async with running((120, 40), "one gpu", told) as at:
        assert "14 min ago" in at.row("matmul")
        await at.tell(sample(gpu(), at=NOW + 600))
        assert "24 min ago" in at.row("matmul")
