"""A line of a recording: what goes in comes out, and what is none is refused in one line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recordings.making import header_line, refusal
from tests.screens.helpers import gpu, gpu_process, sample
from tests.screens.watching import TORCHRUN, figures, said, told, torch_process
from tui.core.events import LogLine, MonitorStatus, RunnerStatus, WatchStatus
from tui.devices.state.machine import DeviceSelected, PeaksReset
from tui.monitor.messages import Watch
from tui.recordings import lines
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import FlagSet, ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep
from workloads.protocol import messages

texts = st.text(max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | finite
settings = st.booleans() | st.integers(-(2**60), 2**60) | finite | texts
counts = st.integers(-(2**63), 2**63 - 1)
tables = st.dictionaries(texts, settings, max_size=3)
flags = st.dictionaries(texts, st.booleans(), max_size=3)
runs = st.builds(
    messages.Run, texts, texts, texts, tables, flags, st.sampled_from(["quick", "normal"])
)
processes = st.builds(
    lambda user, command, memory: gpu_process(user=user, command=command, memory=memory),
    st.none() | texts,
    st.none() | texts,
    st.none() | st.integers(0, 2**50),
)
samples = st.builds(
    lambda rows, power: sample(gpu(processes=tuple(rows), power_w=power)),
    st.lists(processes, max_size=3),
    maybe,
)
events: st.SearchStrategy[AnyEvent] = st.one_of(
    samples,
    st.builds(LogLine, st.sampled_from(["runner", "monitor"]), texts),
    st.builds(DeviceSelected, texts),
    st.builds(ParametersSet, texts, tables),
    st.builds(SweepSet, texts, st.builds(Sweep, st.just({"n": "1,2"}), st.tuples(tables, tables))),
    st.builds(FlagSet, texts, st.booleans()),
    st.builds(PeaksReset, texts),
    st.builds(RunQueued, runs),
    st.builds(RunnerStatus, st.sampled_from(["ready", "ended"]), texts, texts, st.none() | texts),
    st.builds(MonitorStatus, st.sampled_from(["ready", "restarting"]), texts),
    st.builds(
        lambda command, rank: told(
            torch_process(command=command, rank=rank, launched_by=TORCHRUN, reason="x", word="y")
        ),
        st.none() | texts,
        st.none() | counts,
    ),
    st.builds(lambda held: said(figures(allocated=held)), counts),
    st.builds(messages.Heartbeat, finite, st.none() | texts),
    st.builds(messages.Progress, texts, st.just("measuring"), finite, texts, counts, maybe),
    st.builds(messages.Rejected, texts, texts),
    st.builds(messages.WorkerEnded, counts, texts, st.booleans()),
)
moments = st.floats(0, lines.LONGEST_S)


@given(moments, events)
def test_an_event_comes_back_as_it_was(at: float, event: AnyEvent) -> None:
    line = lines.encode_event(at, event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found = lines.parse_line(line)
    assert found.speaker is not None
    assert abs(found.at - at) <= 1e-6 + at * 1e-15
    assert lines.decode_event(found) == event


@given(moments, runs)
def test_a_request_is_kept_and_is_no_event(at: float, run: messages.Run) -> None:
    found = lines.parse_line(lines.encode_request(at, "runner", run))
    assert found.speaker is None
    assert found.message["id"] == run.id


@pytest.mark.parametrize("version", [*lines.OLDER, lines.VERSION])
def test_recordings_of_older_programs_are_played(version: int) -> None:
    assert lines.parse_header(header_line(version=version), "x").version == version


def test_each_event_is_its_speakers() -> None:
    heard: list[tuple[AnyEvent, str]] = [
        (sample(), "monitor"),
        (messages.Heartbeat(1.0, None), "runner"),
        (LogLine("runner", "x"), "workbench"),
        (WatchStatus("ready"), "workbench"),
        (told(torch_process()), "watch"),
        (said(figures()), "watch"),
    ]
    for event, speaker in heard:
        assert lines.parse_line(lines.encode_event(0, event)).speaker == speaker
    assert json.loads(lines.encode_request(0, "monitor", Watch((1,))))["to"] == "monitor"


@given(st.binary(max_size=60) | texts.map(str.encode))
def test_any_bytes_are_a_line_or_are_refused_in_one_line(data: bytes) -> None:
    for refused in (
        refusal(lambda: lines.parse_line(data)),
        refusal(lambda: lines.parse_header(data, "f")),
    ):
        assert refused is None or "\n" not in refused


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["t", "from", "to", "message"]), json_values)
    | st.dictionaries(st.sampled_from(["type", "version", "program", "at", "date"]), json_values)
)
def test_any_object_is_a_line_or_is_refused(data: dict[str, object]) -> None:
    line = json.dumps(data).encode()
    for refused in (
        refusal(lambda: lines.parse_line(line)),
        refusal(lambda: lines.parse_header(line, "f")),
    ):
        assert refused is None or "\n" not in refused


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "f is not a recording"),
        (b"\x80\x04K\x01.", "f is not a recording"),
        (b'{"type":"recording"}', "f is not a recording"),
        (header_line(version=3, program="9.9"), "of format 3, this program plays 2: .* 9.9"),
        (header_line(at=-1.0), "which is no Unix time"),
    ],
)
def test_a_first_line_of_something_else_is_refused(line: bytes, says: str) -> None:
    with pytest.raises(lines.RecordingError, match=says):
        lines.parse_header(line, "f")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (-1, "0:00"), (7.9, "0:07"), (754, "12:34"), (3723, "1:02:03")],
)
def test_a_time_is_written_as_players_do(seconds: float, text: str) -> None:
    assert lines.format_time(seconds) == text
