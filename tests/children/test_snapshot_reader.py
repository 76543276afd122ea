"""The reader child over real pipes: it answers, refuses in one line, and dies alone."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typing_extensions import assert_type

from tests.snapshots.scenes import MIB, oom, segment
from tui.snapshots.model import calls
from tui.snapshots.model.calls import (
    Changes,
    MapPage,
    Method,
    Need,
    StateArguments,
    Stretch,
    VerdictArguments,
)
from tui.snapshots.model.pictures import Pinning, SiteHistory, Timeline
from tui.snapshots.model.results import (
    Part,
    SiteListing,
    State,
    Verdict,
)
from tui.snapshots.reader.messages import (
    Call,
)
from tui.snapshots.reader.methods import COMPUTATIONS
from tui.snapshots.reader.serve import PART
from tui.snapshots.session.snapshot_reader import CallError, Refused, SnapshotReader

FILES = Path(__file__).parents[1] / "snapshots" / "files"
TRAINING = str(FILES / "training.pickle")
TIMEOUT_S = 60.0
MESSAGE = (
    "CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 1.00 GiB of"
    " which 8.00 MiB is free. Process 7 has 500.00 MiB memory in use."
)


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), TIMEOUT_S)


async def opened(*paths: str, text: str = "") -> SnapshotReader:
    session = SnapshotReader()
    session.open(paths, text)
    await until(lambda: session.store.status != "loading")
    return session


async def asked(session: SnapshotReader, need: Need[Any, Any]) -> object:
    session.request(need)
    await until(lambda: session.store.find_answer(need) is not None or session.store.reason)
    done = session.store.find_answer(need)
    return None if done is None else done.value


def state_at(event: int | None) -> Need[StateArguments, State]:
    return Need(calls.STATE, StateArguments(0, event))


def oom_file(folder: Path) -> str:
    raw = {
        "segments": [segment(0x1000000, [("allocated", 40), ("free", 60), ("allocated", 4)])],
        "device_traces": [[oom(100, 8)]],
    }
    path = folder / "oom.pickle"
    path.write_bytes(pickle.dumps(raw))
    return str(path)


async def test_every_question_has_its_answer() -> None:
    session = await opened(TRAINING)
    loaded = session.store.loaded
    assert loaded is not None
    assert loaded.devices[0].reserved == 1_897_922_560
    peak = loaded.devices[0].live_peak_event
    kinds: list[tuple[Need[Any, Any], type]] = [
        (state_at(peak), State),
        (Need(calls.TIMELINE, calls.TimelineArguments(0, 40)), Timeline),
        (Need(calls.PART, calls.PartArguments(0, peak, "category", "parameters")), Part),
        (Need(calls.LAYER_SIZES, calls.LayerSizesArguments(0, peak)), tuple),
        (Need(calls.LAYER_SIZES, calls.LayerSizesArguments(0, 10**9)), Refused),
        (Need(calls.SITE_HISTORY, calls.SiteHistoryArguments(0, "nowhere", 9)), SiteHistory),
        (Need(calls.PART, calls.PartArguments(0, peak, "site", "nowhere")), Refused),
        (Need(calls.SITES, calls.SitesArguments(0, peak)), SiteListing),
        (Need(calls.STACK, calls.StackArguments(1)), tuple),
        (Need(calls.MAP, calls.MapArguments(0, None, 0, 5, 30)), MapPage),
        (Need(calls.PINNING, calls.PinningArguments(0, None, 0)), Pinning),
        (Need(calls.REPORT, calls.ReportArguments("markdown", 0)), str),
        (Need(calls.VERDICT, VerdictArguments(0, 0)), Refused),
        (state_at(10**9), Refused),
        (Need(calls.SITES, calls.SitesArguments(7, None)), Refused),
        (Need(calls.SITES, calls.SitesArguments(0, None, search="(a+)+", regex=True)), Refused),
        (Need(calls.DIFFERENCE, calls.DifferenceArguments(0)), Refused),
    ]
    for need, kind in kinds:
        answer = await asked(session, need)
        assert isinstance(answer, kind), need
        if isinstance(answer, Refused):
            assert "\n" not in answer.reason
    shown = await session.call(calls.MAP, calls.MapArguments(0, None, 0, 1, 30))
    assert shown.total <= shown.segments
    row = shown.rows[0].row
    end = row.address + row.size
    arguments = calls.StretchArguments(0, None, row.index, row.address, end, 30, row.address)
    stretch = await session.call(calls.STRETCH, arguments)
    assert_type(stretch, Stretch)
    assert len(stretch.states) == len(stretch.used) == 30
    assert session.store.status == "ready"
    await session.stop()


async def test_sites_have_the_letters_of_the_timelines_layers() -> None:
    session = await opened(TRAINING)
    assert session.store.loaded is not None
    peak = session.store.loaded.devices[0].live_peak_event
    layers = (await session.call(calls.TIMELINE, calls.TimelineArguments(0, 40))).layers
    sites = (await session.call(calls.SITES, calls.SitesArguments(0, peak))).rows
    assert {site.key: site.rank for site in sites if site.rank is not None} == {
        layer.key: layer.rank for layer in layers if layer.key in {site.key for site in sites}
    }
    assert 0 in {site.rank for site in sites}
    for other in (
        calls.SitesArguments(0, peak, (sites[0].key,)),
        calls.SitesArguments(0, peak, grouping="file"),
    ):
        assert {row.rank for row in (await session.call(calls.SITES, other)).rows} <= {None}
    await session.stop()


async def test_a_call_returns_the_declared_type_or_raises_in_one_line() -> None:
    session = await opened(TRAINING)
    assert_type(await session.call(calls.STATE, StateArguments(0, 5)), State)
    pinning = await session.call(calls.PINNING, calls.PinningArguments(0, None, 0))
    assert_type(pinning, Pinning | None)
    with pytest.raises(CallError, match="no device 7"):
        await session.call(calls.STATE, StateArguments(7, 5))
    waiting = asyncio.create_task(session.call(calls.STATE, StateArguments(0, 6)))
    newer = asyncio.create_task(session.call(calls.STATE, StateArguments(0, 7)))
    assert (await newer).event == 7
    # The older one was replaced, or was computed before the newer one came.
    (older,) = await asyncio.gather(waiting, return_exceptions=True)
    if isinstance(older, State):
        assert older.event == 6
    else:
        assert str(older) == "replaced by a newer call of state"
    await session.stop()


async def test_a_call_fails_when_its_reader_dies() -> None:
    session = await opened(TRAINING)
    assert session.child is not None
    assert session.child.pid is not None
    os.kill(session.child.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(session.call(calls.STATE, StateArguments(0, 6)))
    await until(lambda: session.store.waiting)
    os.kill(session.child.pid, signal.SIGKILL)
    with pytest.raises(CallError, match="it was killed"):
        await waiting
    await session.stop()


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("nothing", {}, "no method nothing"),
        ("state", {"device": "x", "event": 1}, "does not fit this reader"),
        ("state", {}, "does not fit this reader"),
    ],
)
async def test_a_call_that_fits_no_method_is_refused_in_one_line(
    method: str, arguments: dict[str, object], words: str
) -> None:
    session = await opened(TRAINING)
    assert session.child is not None
    need = state_at(1)
    session.store.record_call(99, need)
    session.child.send(Call(99, method, arguments, (method,)))
    await until(lambda: session.store.find_answer(need))
    done = session.store.find_answer(need)
    assert done is not None
    assert isinstance(done.value, Refused)
    assert words in done.value.reason
    await session.stop()


async def test_a_report_longer_than_a_line_arrives_whole(tmp_path: Path) -> None:
    long = segment(0x1000000, [("allocated", 1)] * 90)
    for number, block in enumerate(long["blocks"]):
        block["frames"] = [{"filename": "a.py", "line": number, "name": "f" * 10_000}]
    path = tmp_path / "long.pickle"
    path.write_bytes(pickle.dumps({"segments": [long], "device_traces": [[]]}))
    session = await opened(str(path))
    made = await session.call(calls.REPORT, calls.ReportArguments("json", top=90))
    assert len(made) > PART
    assert len(json.loads(made)["devices"][0]["top"]) == 90
    await session.stop()


def test_every_method_is_declared_once_under_its_own_name() -> None:
    declared = [value for value in vars(calls).values() if isinstance(value, Method)]
    assert sorted(method.name for method in declared) == sorted(calls.METHODS)
    for method in declared:
        assert is_dataclass(method.arguments), method.name


def test_every_method_is_computed_by_a_function_of_its_types() -> None:
    assert sorted(COMPUTATIONS) == sorted(calls.METHODS)
    for name, function in COMPUTATIONS.items():
        hints = get_type_hints(function)
        method = calls.METHODS[name]
        assert (hints["arguments"], hints["return"]) == (method.arguments, method.value), name


async def test_the_text_of_the_exception_adds_the_total_to_the_verdict(tmp_path: Path) -> None:
    session = await opened(oom_file(tmp_path))
    need = Need(calls.VERDICT, VerdictArguments(0, 0))
    before = await asked(session, need)
    assert isinstance(before, Verdict)
    assert before.total is None
    session.set_text(MESSAGE)
    after = await asked(session, need)
    assert isinstance(after, Verdict)
    assert after.total == 1024 * MIB
    await session.stop()


@pytest.mark.parametrize(("text", "said"), [("no such thing", 1), (MESSAGE, 0), (" ", 0)])
async def test_a_text_without_a_message_is_said(tmp_path: Path, text: str, said: int) -> None:
    session = await opened(oom_file(tmp_path), text=text)
    assert session.store.loaded is not None
    (info,) = session.store.loaded.files
    assert sum("was not understood" in warning for warning in info.warnings) == said
    await session.stop()


async def test_two_files_are_compared() -> None:
    session = await opened(TRAINING, TRAINING)
    answer = await session.call(calls.DIFFERENCE, calls.DifferenceArguments(0))
    assert_type(answer, Changes)
    assert answer.difference.rows == ()
    await session.stop()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello, this is text", "neither a pickle nor JSON"),
        (pickle.dumps(os.system), "refused"),
        (Path(TRAINING).read_bytes()[:5000], "too early"),
    ],
    ids=["empty", "text", "code", "cut off"],
)
async def test_a_bad_file_is_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.pickle"
    path.write_bytes(content)
    session = await opened(str(path))
    assert session.store.status == "failed"
    assert words in session.store.reason
    assert "\n" not in session.store.reason
    await session.stop()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
async def test_a_reader_that_dies_is_one_line_and_the_answers_stay(
    number: signal.Signals,
) -> None:
    session = await opened(TRAINING)
    need = state_at(None)
    await asked(session, need)
    assert session.child is not None
    assert session.child.pid is not None
    os.kill(session.child.pid, number)
    await until(lambda: session.store.status == "failed")
    assert "training.pickle" in session.store.reason
    assert "\n" not in session.store.reason
    assert session.store.find_answer(need) is not None
    session.request(state_at(5))
    session.open([TRAINING])
    await until(lambda: session.store.status == "ready")
    await session.stop()


async def test_cancel_ends_the_reader_and_another_file_can_be_read() -> None:
    session = SnapshotReader()
    session.open([TRAINING])
    child = session.child
    session.cancel()
    assert session.store.status == "cancelled"
    session.open([TRAINING])
    await until(lambda: session.store.status == "ready")
    await session.stop()
    assert child is not None
    assert not child.running


async def test_of_many_questions_of_a_kind_the_last_is_answered() -> None:
    session = await opened(TRAINING)
    for event in range(300):
        session.request(state_at(event))
    answer = await asked(session, state_at(299))
    assert isinstance(answer, State)
    assert answer.event == 299
    assert not session.store.must_send(state_at(299))
    await session.stop()


async def test_the_reader_ends_with_its_channel() -> None:
    session = await opened(TRAINING)
    child = session.child
    assert child is not None
    await session.stop()
    assert not child.running
