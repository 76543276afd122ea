"""The watch as a child of the session: it is kept running, and ends with the session."""

from __future__ import annotations

import json
from pathlib import Path

from tests.children.sessions import until
from tests.screens.helpers import environment, gpu, sample, torch_gpu
from tests.tiers import VARIANT
from tui.recordings import lines
from tui.recordings.lines import AnyEvent
from tui.recordings.recorder import Recorder
from tui.runs.session.session import Session
from workloads.protocol import messages


@VARIANT
async def test_a_watch_that_ends_is_started_anew_and_all_of_it_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    session = Session(interval=None, attachments=[Recorder(path)])
    state = session.state

    def is_read() -> bool:
        return (
            state.machine.allocators is not None
            and state.machine.allocators.status.status == "ready"
        )

    before: tuple[AnyEvent, ...] = (
        sample(gpu(0)),
        messages.Ready(environment(torch_gpu(0)), 1.0),
    )
    for event in before:
        session.state.publish(event)
    session.watch_torch(True)
    children = []
    try:
        for _ in range(2):
            await until(session, is_read)
            (child,) = session.shared_watch.children
            children.append(child)
            session.watch_torch(False)
            session.watch_torch(True)
            if len(children) == 1:
                child.kill()
                await until(session, lambda: not is_read())
                assert state.machine.allocators is not None
                assert "the watch ended" in state.machine.allocators.status.reason
    finally:
        await session.stop()
    assert not any(child.running for child in children)
    assert children[0].pid != children[1].pid
    said = [entry for entry in lines.read_events(path) if entry.speaker == "watch"]
    assert sum(entry.message["type"] == "watch_hello" for entry in said) == 2
    asked = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert any(line.get("to") == "watch" for line in asked)
