"""The reader child: reads a file within a limit on memory, then answers what is asked of it."""

from __future__ import annotations

import gc
import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tui.core.child.inside import ParentChannel
from tui.core.text.redact import Redactor
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.model.calls import Slot
from tui.snapshots.model.results import FileInfo
from tui.snapshots.model.snapshot import Frame, Snapshot, SnapshotError
from tui.snapshots.read import memory_limit
from tui.snapshots.read.load import Where, collector_off, estimate, load
from tui.snapshots.read.memory_limit import Estimate
from tui.snapshots.read.normalise import Keep
from tui.snapshots.read.time_limit import allowed_s, time_limit
from tui.snapshots.reader import messages
from tui.snapshots.reader.messages import Answer, Call, Load, Request
from tui.snapshots.reader.methods import Files, compute
from workloads.protocol.wire import encode, to_plain


def redacted(snapshot: Snapshot, texts: Iterable[str] = ()) -> tuple[Snapshot, Redactor]:
    """Return a snapshot without user names in its paths, contexts and settings.

    Args:
        snapshot: as it was read.
        texts: other texts that go along, such as messages of exceptions, whose names count too.

    Returns:
        The snapshot, and what to redact those texts with.
    """
    redact = Redactor(
        (
            snapshot.file,
            *(frame.filename for frame in snapshot.frames),
            *snapshot.contexts,
            *_texts_in(to_plain(snapshot.agent)),
            *texts,
        )
    )
    frames = tuple(
        Frame(redact(frame.filename), frame.line, frame.name) for frame in snapshot.frames
    )
    return (
        replace(
            snapshot,
            file=redact(snapshot.file),
            frames=frames,
            contexts=tuple(map(redact, snapshot.contexts)),
            settings={name: redact(value) for name, value in snapshot.settings.items()},
            notes=tuple(map(redact, snapshot.notes)),
            annotations=redact.all_of(snapshot.annotations),
            agent=redact.all_of(snapshot.agent),
        ),
        redact,
    )


def _texts_in(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


class Waiting:
    """A queue between the thread that listens and the one that answers."""

    def __init__(self) -> None:
        self._requests: dict[Slot, Request] = {}
        self._filled = threading.Condition()

    def put(self, request: Request) -> None:
        """Add a request; one of the same slot that still waits is dropped.

        The newer one takes the end of the queue and not the older one's place: who asks quickly
        must not keep others from their turn.
        """
        slot = request.slot if isinstance(request, Call) else ()
        with self._filled:
            self._requests.pop(slot, None)
            self._requests[slot] = request
            self._filled.notify()

    def take(self, meanwhile: Callable[[], bool] = lambda: False) -> Request:
        """Return the request that has waited longest, waiting for one if there is none.

        Args:
            meanwhile: done piece by piece while there is none; whether there is more of it.
        """
        more = True
        while more and not self._requests:
            more = meanwhile()
        with self._filled:
            while not self._requests:
                self._filled.wait()
            first = next(iter(self._requests))
            return self._requests.pop(first)


TELL_S = 0.2
"""Between two words of progress."""
KNOWN_AFTER_S = 0.5
"""Before that a phase has no pace to tell the time left from."""
LONGEST_ANSWER = 3 << 20
"""Bytes of a line; the other side takes one more."""
PART = 1 << 18
"""Characters of a report in one line; each may take six bytes there."""

Say = Callable[[messages.ReaderEvent], None]


class ProgressPace:
    """Turns what the loader tells into words of progress, not too many.

    Args:
        number: id of the request that they belong to.
        say: takes them.
        clock: seconds, never going back.
    """

    def __init__(self, number: int, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._number = number
        self._say = say
        self._clock = clock
        self._began = clock()
        self._phase = ""
        self._phase_began = self._began
        self._told = float("-inf")

    def tell(self, done: int, total: int, phase: str) -> None:
        """How far it is; see :data:`tui.snapshots.read.source.Progress`."""
        now = self._clock()
        if phase != self._phase:
            self._phase, self._phase_began, self._told = phase, now, float("-inf")
        if now - self._told < TELL_S:
            return
        self._told = now
        spent = now - self._phase_began
        known = spent >= KNOWN_AFTER_S and 0 < done <= total
        left = spent * (total - done) / done if known else None
        self._say(
            messages.Progress(
                id=self._number,
                phase=phase,
                done=done,
                total=total,
                elapsed_s=now - self._began,
                left_s=left,
            )
        )


def serve(parent: ParentChannel, source: int | None) -> None:
    """Answer requests until the front end goes away; never returns.

    Args:
        parent: the front end.
        source: descriptor that stands for ``-``; ``None`` where there is none.
    """
    waiting = Waiting()
    parent.listen(messages.REQUESTS, waiting.put)

    def say(event: messages.ReaderEvent) -> None:
        line = encode(event)
        if len(line) > LONGEST_ANSWER:
            number = 0 if isinstance(event, messages.ReaderHello) else event.id
            reason = "the answer is too long: the names in this file are"
            line = encode(Answer(number, error=reason))
        parent.write(line)

    files: Files | None = None
    spent: list[object] = []
    """What a file was read from, to be freed while nobody waits for an answer."""

    def free_some() -> bool:
        del spent[-1:]
        return bool(spent)

    while True:
        request = waiting.take(free_some)
        try:
            if isinstance(request, Load) and files is None:
                files = _load(request, source, say, spent)
            else:
                for part in _answers(files, request):
                    say(part)
        except SnapshotError as error:
            say(Answer(request.id, error=str(error)))
        except MemoryError:
            reason = (
                "needs more memory than is allowed: read the file with a filter on it, or allow it"
                f" more ({MEMORY_OPTION} SIZE)"
            )
            say(Answer(request.id, error=reason))


def _answers(files: Files | None, request: Request) -> Iterator[Answer]:
    """Yield the answer to a call, a long text in pieces.

    Raises:
        SnapshotError: there is none; one line that says why.
    """
    if files is None:
        raise SnapshotError("no file is read yet")
    if isinstance(request, Load):
        raise SnapshotError("a file is read already: start another reader for another file")
    value = compute(files, request)
    if not isinstance(value, str):
        yield Answer(request.id, value)
        return
    for start in range(0, max(1, len(value)), PART):
        yield Answer(request.id, value[start : start + PART], more=start + PART < len(value))


def _load(request: Load, source: int | None, say: Say, spent: list[object]) -> Files:
    """Read the files, replay them and say what is in them, within limits of memory and time.

    Args:
        request: names them.
        source: descriptor that stands for ``-``.
        say: takes how far it is and what was found.
        spent: takes what is to be freed afterwards.

    Raises:
        SnapshotError: a file cannot be read.
    """
    began = time.monotonic()
    needed = _together([estimate(path, request.memory) for path in request.paths])
    memory_limit.restrict(needed)
    say(messages.Estimated(request.id, needed.byte, needed.expected, needed.allowed, str(needed)))
    with time_limit(allowed_s(needed)):
        return _read(request, source, say, spent, began)


def _read(request: Load, source: int | None, say: Say, spent: list[object], began: float) -> Files:
    pace = ProgressPace(request.id, say)
    keep = Keep(request.device, request.first, request.last, request.minimal_size)
    *others, last = request.paths
    # What is read stays. Were the collector on for a moment before it is told so, it would look at
    # all of it: half a second for a million entries.
    with collector_off():
        read = [
            load(_where(path, source), progress=pace.tell, keep=keep, memory=request.memory)
            for path in others
        ]
        # Of the last file alone: what others were read from would take room while it is read.
        read.append(
            load(
                _where(last, source),
                progress=pace.tell,
                keep=keep,
                memory=request.memory,
                spent=spent,
            )
        )
        gc.freeze()
    text = request.oom_text
    if request.redact:
        read, text = _redacted_files(read, text)
    files = tuple(Analysis(snapshot) for snapshot in read)
    pace.tell(0, len(read), "checking")
    analysed = Files(files, tuple(file.faults for file in files), text, request.circumstances)
    devices = analysed.files[0].devices
    summaries = []
    for number, device in enumerate(devices.values()):
        pace.tell(number, len(devices), "replaying")
        summaries.append(device.summary(top=request.top))
    common = set(devices).intersection(*(other.devices for other in analysed.files))
    say(
        messages.Loaded(
            id=request.id,
            files=tuple(map(_info, read, analysed.warnings)),
            devices=tuple(summaries),
            common=tuple(sorted(common)),
            texts=len(analysed.texts),
            took_s=time.monotonic() - began,
        )
    )
    return analysed


def _where(path: str, source: int | None) -> Where:
    if path != STANDARD_INPUT:
        return path
    if source is None:
        raise SnapshotError("standard input: this reader was given none")
    raw = io.FileIO(source, closefd=False)
    # Messages name what was asked for, not a number.
    raw.name = STANDARD_INPUT
    return io.BufferedReader(raw)


def _together(found: list[Estimate]) -> Estimate:
    """Return the estimate for reading several files, keeping each while the next is read."""
    if len(found) == 1:
        return found[0]
    expected = [item.expected for item in found]
    allowed = [item.allowed for item in found if item.allowed is not None]
    available, memory = found[0].available, found[0].memory
    limit = memory_limit.limit_of(available, memory)
    most = sum(allowed) if len(allowed) == len(found) else limit
    if most is not None and limit is not None:
        most = min(most, limit)
    return Estimate(
        sum(item.byte for item in found),
        sum(item.unpacked for item in found),
        None if None in expected else sum(item or 0 for item in expected),
        most,
        available,
        memory,
    )


def _redacted_files(read: list[Snapshot], text: str) -> tuple[list[Snapshot], str]:
    made = []
    for snapshot in read:
        without, redact = redacted(snapshot, (text,))
        made.append(without)
        text = redact(text)
    return made, text


def _offset(snapshot: Snapshot) -> list[str]:
    """Where a filter left out what came first, events are counted from what is left."""
    return [
        f"device {device.index}: event 0 is entry {device.first} of the file"
        for device in snapshot.devices
        if device.first
    ]


def _info(snapshot: Snapshot, warnings: tuple[str, ...]) -> FileInfo:
    return FileInfo(
        file=snapshot.file,
        container=snapshot.container,
        form=snapshot.form,
        byte=snapshot.byte,
        settings=snapshot.settings,
        warnings=(*snapshot.notes, *_offset(snapshot), *warnings),
        host_segments=snapshot.host_segments,
    )
