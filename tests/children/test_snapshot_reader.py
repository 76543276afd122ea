"""The reader child over real pipes: it answers, refuses in one line, and dies alone."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.snapshots.scenes import MIB, oom, segment
from tui.snapshots.reader.messages import (
    AskDifference,
    AskMap,
    AskPart,
    AskPinning,
    AskSites,
    AskStack,
    AskState,
    AskStretch,
    AskTimeline,
    AskVerdict,
    DifferenceIs,
    Export,
    Exported,
    MapIs,
    PartIs,
    PinningIs,
    Refused,
    Request,
    SitesAre,
    StackIs,
    StateIs,
    StretchIs,
    TimelineIs,
    VerdictIs,
)
from tui.snapshots.session.snapshot_reader import SnapshotReader

FILES = Path(__file__).parents[1] / "snapshots" / "files"
TRAINING = str(FILES / "training.pickle")
PATIENCE_S = 60.0
MESSAGE = (
    "CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 1.00 GiB of"
    " which 8.00 MiB is free. Process 7 has 500.00 MiB memory in use."
)


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), PATIENCE_S)


async def opened(*paths: str, text: str = "") -> SnapshotReader:
    session = SnapshotReader()
    session.open(paths, text)
    await until(lambda: session.store.status != "loading")
    return session


async def asked(session: SnapshotReader, request: Request) -> object:
    session.want(request)
    await until(lambda: session.store.exactly(request) is not None or session.store.reason)
    return session.store.exactly(request)


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
    kinds: list[tuple[Request, type]] = [
        (AskState(0, 0, peak), StateIs),
        (AskTimeline(0, 0, 40), TimelineIs),
        (AskPart(0, 0, peak, "category", "parameters"), PartIs),
        (AskPart(0, 0, peak, "site", "nowhere"), Refused),
        (AskSites(0, 0, peak), SitesAre),
        (AskStack(0, 1), StackIs),
        (AskMap(0, 0, None, 0, 5, 30), MapIs),
        (AskPinning(0, 0, None, 0), PinningIs),
        (Export(0, "markdown", 0), Exported),
        (AskVerdict(0, 0, 0), Refused),
        (AskState(0, 0, 10**9), Refused),
        (AskSites(0, 7, None), Refused),
        (AskSites(0, 0, None, search="(a+)+", regex=True), Refused),
        (AskDifference(0, 0), Refused),
    ]
    for request, kind in kinds:
        answer = await asked(session, request)
        assert isinstance(answer, kind), request
        if isinstance(answer, Refused):
            assert "\n" not in answer.reason
    shown = await asked(session, AskMap(0, 0, None, 0, 1, 30))
    assert isinstance(shown, MapIs)
    row = shown.rows[0].row
    stretch = AskStretch(0, 0, None, 0, row.address, row.address + row.size, 30, row.address)
    answer = await asked(session, stretch)
    assert isinstance(answer, StretchIs)
    assert len(answer.states) == len(answer.used) == 30
    assert session.store.status == "ready"
    await session.stop()


async def test_the_text_of_the_exception_adds_the_total_to_the_verdict(tmp_path: Path) -> None:
    session = await opened(oom_file(tmp_path))
    request = AskVerdict(0, 0, 0)
    before = await asked(session, request)
    assert isinstance(before, VerdictIs)
    assert before.verdict.total is None
    session.set_text(MESSAGE)
    after = await asked(session, request)
    assert isinstance(after, VerdictIs)
    assert after.verdict.total == 1024 * MIB
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
    answer = await asked(session, AskDifference(0, 0))
    assert isinstance(answer, DifferenceIs)
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
    request = AskState(0, 0, None)
    await asked(session, request)
    assert session.child is not None
    assert session.child.pid is not None
    os.kill(session.child.pid, number)
    await until(lambda: session.store.status == "failed")
    assert "training.pickle" in session.store.reason
    assert "\n" not in session.store.reason
    assert session.store.exactly(request) is not None
    session.want(AskState(0, 0, 5))
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
        session.want(AskState(0, 0, event))
    answer = await asked(session, AskState(0, 0, 299))
    assert isinstance(answer, StateIs)
    assert answer.state.event == 299
    assert not session.store.needs(AskState(0, 0, 299))
    await session.stop()


async def test_the_reader_ends_with_its_channel() -> None:
    session = await opened(TRAINING)
    child = session.child
    assert child is not None
    await session.stop()
    assert not child.running
