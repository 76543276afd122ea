"""What is known of a snapshot that a reader child reads. No Textual.

Panes say what they want to show; the newest answer to each kind of question stays here, also while
a newer question of its kind waits, so that something is there to be drawn.
"""

from __future__ import annotations

from typing import Literal

from tui.snapshots.model.results import Summary
from tui.snapshots.reader.messages import (
    Answer,
    Estimated,
    Loaded,
    Progress,
    ReaderEvent,
    ReaderHello,
    Refused,
    Request,
    Slot,
    same,
    slot,
)
from workloads.protocol.frozen import frozen

Status = Literal["empty", "loading", "ready", "failed", "cancelled"]


@frozen
class Answered:
    """A question and what came of it."""

    request: Request
    answer: Answer | Refused


class SnapshotStore:
    """One reader's files and answers."""

    def __init__(self) -> None:
        self._set("empty", (), "")

    def begin(self, paths: tuple[str, ...], oom_text: str) -> None:
        """Forget everything: other files are being read."""
        self._set("loading", paths, oom_text)

    def _set(self, status: Status, paths: tuple[str, ...], oom_text: str) -> None:
        self.status: Status = status
        self.paths = paths
        self.oom_text = oom_text
        self.reason = ""
        """Why it failed or was cancelled, in one line."""
        self.estimate: Estimated | None = None
        self.progress: Progress | None = None
        self.loaded: Loaded | None = None
        self.answers: dict[Slot, Answered] = {}
        self._sent: dict[int, Request] = {}

    def end(self, status: Status, reason: str) -> None:
        """Nothing can be asked any more; what is known stays on the screen."""
        self.status, self.reason = status, reason
        self._sent.clear()

    # ---- questions ----

    def needs(self, request: Request) -> bool:
        """Whether a question must be sent: it is neither answered nor waiting."""
        if self.status != "ready":
            return False
        waiting = self._waiting(slot(request))
        if waiting is not None:
            return not same(waiting, request)
        done = self.answers.get(slot(request))
        return done is None or not same(done.request, request)

    def sent(self, request: Request) -> None:
        """A question was sent, under its id."""
        self._sent[request.id] = request

    @property
    def waiting(self) -> bool:
        """A question is not answered yet."""
        return bool(self._sent)

    def forget(self, kind: str) -> None:
        """Drop the answers to one kind of question: they no longer hold."""
        self.answers = {key: held for key, held in self.answers.items() if key[0] != kind}

    def exactly(self, request: Request) -> Answer | Refused | None:
        """The answer to this very question, if it is there."""
        done = self.answers.get(slot(request))
        return done.answer if done is not None and same(done.request, request) else None

    def newest(self, request: Request) -> Answered | None:
        """The newest answer to a question of this kind, whatever exactly it was."""
        return self.answers.get(slot(request))

    def _waiting(self, key: Slot) -> Request | None:
        found = None
        for request in self._sent.values():
            if slot(request) == key:
                found = request
        return found

    # ---- events ----

    def apply(self, event: ReaderEvent) -> None:
        """Take in one event of the reader."""
        if isinstance(event, ReaderHello):
            return
        if isinstance(event, Estimated):
            self.estimate = event
        elif isinstance(event, Progress):
            self.progress = event
        elif isinstance(event, Loaded):
            self.loaded, self.status, self.progress = event, "ready", None
        elif isinstance(event, Refused) and event.fatal:
            self.end("failed", event.reason)
        else:
            self._answer(event)

    def _answer(self, event: Answer | Refused) -> None:
        request = self._sent.pop(event.id, None)
        if request is None:
            return
        key = slot(request)
        # The reader drops a question that a newer one replaced: it will not be answered.
        for number, older in list(self._sent.items()):
            if number < event.id and slot(older) == key:
                del self._sent[number]
        held = self.answers.get(key)
        if held is None or held.request.id < event.id:
            self.answers[key] = Answered(request, event)

    # ---- look ----

    def summary(self, device: int | None) -> Summary | None:
        """Of one device of the first file."""
        if self.loaded is None:
            return None
        return next((item for item in self.loaded.devices if item.device == device), None)
