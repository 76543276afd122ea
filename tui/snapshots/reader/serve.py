"""The snapshot reader's main loop: load the files within limits, then answer calls."""

from __future__ import annotations

import gc
import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tui.core.child.inside import ParentChannel
from tui.core.text.redact import Redactor, read_own_home, read_own_name
from tui.snapshots import MEMORY_OPTION, STANDARD_INPUT
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.explain.evidence import Circumstances, Holder
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import Slot
from tui.snapshots.model.results import FileInfo
from tui.snapshots.model.snapshot import Snapshot, SnapshotError
from tui.snapshots.read import limits
from tui.snapshots.read.limits import Estimate, allowed_s, time_limit
from tui.snapshots.read.load import Where, estimate, load
from tui.snapshots.read.normalise import TraceFilter
from tui.snapshots.reader import messages
from tui.snapshots.reader.messages import Call, CallAnswer, Load, Request
from tui.snapshots.reader.methods import Files, compute
from workloads.measure.collector import collector_off
from workloads.protocol.wire import encode, to_plain


def redact_snapshot(snapshot: Snapshot, texts: Iterable[str] = ()) -> tuple[Snapshot, Redactor]:
    """Remove user names from a snapshot's paths, contexts and settings.

    Args:
        snapshot: the loaded snapshot.
        texts: other texts to redact alike, such as exception messages.

    Returns:
        The redacted snapshot, and the redactor for the other texts.
    """
    redact = Redactor(
        (
            snapshot.file,
            *(frame.filename for frame in snapshot.frames),
            *snapshot.contexts,
            *_texts_in(to_plain(snapshot.agent)),
            *texts,
        ),
        home=read_own_home(),
        name=read_own_name(),
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


def redact_circumstances(known: Circumstances, redact: Redactor) -> Circumstances:
    """Remove user names from a watch's facts, and the commands of other processes."""

    def without_names(holders: tuple[Holder, ...]) -> tuple[Holder, ...]:
        return tuple(Holder(holder.pid, holder.bytes) for holder in holders)

    return replace(
        known,
        holders=without_names(known.holders),
        known=without_names(known.known),
        source=redact(known.source),
        lines=redact.all_of(known.lines),
    )


def _texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


class RequestQueue:
    """Queue of requests from the listening thread to the answering one."""

    def __init__(self) -> None:
        self._requests: dict[Slot, Request] = {}
        self._filled = threading.Condition()

    def put(self, request: Request) -> None:
        """Add a request and drop a waiting one with the same slot.

        The newer request goes to the end of the queue, so that frequent calls do not starve
        others.
        """
        slot = request.slot if isinstance(request, Call) else ()
        with self._filled:
            self._requests.pop(slot, None)
            self._requests[slot] = request
            self._filled.notify()

    def get(self, while_idle: Callable[[], bool] = lambda: False) -> Request:
        """Remove and return the oldest request; wait until there is one.

        Args:
            while_idle: called while the queue is empty; returns whether it has more to do.
        """
        more = True
        while more and not self._requests:
            more = while_idle()
        with self._filled:
            while not self._requests:
                self._filled.wait()
            first = next(iter(self._requests))
            return self._requests.pop(first)


REPORT_INTERVAL_S = 0.2
"""Minimum seconds between two progress messages."""
PACE_AFTER_S = 0.5
"""Seconds of a phase before its remaining time is estimated."""
LONGEST_ANSWER = 3 << 20
"""Maximum bytes of an answer line; the receiver accepts one more."""
PART = 1 << 18
"""Characters of a report per line; JSON may escape each with six bytes."""

Send = Callable[[messages.ReaderEvent], None]


class ProgressPace:
    """Converts the loader's progress to messages at a limited rate.

    Args:
        number: id of the request.
        send: sends a message.
        clock: monotonic seconds.
    """

    def __init__(
        self, number: int, send: Send, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._number = number
        self._send = send
        self._clock = clock
        self._phase = ""
        self._phase_began = 0.0
        self._last_report = float("-inf")

    def report(self, done: int, total: int, phase: str) -> None:
        """Report progress; see :data:`tui.snapshots.read.source.ReportProgress`."""
        now = self._clock()
        if phase != self._phase:
            self._phase, self._phase_began, self._last_report = phase, now, float("-inf")
        if now - self._last_report < REPORT_INTERVAL_S:
            return
        self._last_report = now
        spent = now - self._phase_began
        known = spent >= PACE_AFTER_S and 0 < done <= total
        left = spent * (total - done) / done if known else None
        self._send(
            messages.LoadProgress(
                id=self._number,
                phase=phase,
                done=done,
                total=total,
                left_s=left,
            )
        )


def serve(parent: ParentChannel, source: int | None) -> None:
    """Answer requests until the program ends; never returns.

    Args:
        parent: the program that started this process.
        source: descriptor that stands for ``-``; ``None`` where there is none.
    """
    waiting = RequestQueue()
    parent.listen(messages.REQUESTS, waiting.put)

    def send(event: messages.ReaderEvent) -> None:
        line = encode(event)
        if len(line) > LONGEST_ANSWER:
            number = 0 if isinstance(event, messages.ReaderHello) else event.id
            reason = "the answer is too long: the names in this file are"
            line = encode(CallAnswer(number, error=reason))
        parent.write(line)

    files: Files | None = None
    spent: list[object] = []
    """Raw objects of the files, freed while no request waits."""

    def free_some() -> bool:
        del spent[-1:]
        return bool(spent)

    while True:
        request = waiting.get(free_some)
        try:
            if isinstance(request, Load) and files is None:
                files = _load(request, source, send, spent)
            else:
                for part in _answer(files, request):
                    send(part)
        except SnapshotError as error:
            send(CallAnswer(request.id, error=str(error)))
        except MemoryError:
            reason = (
                "needs more memory than is allowed: read the file with a filter on it, or allow it"
                f" more ({MEMORY_OPTION} SIZE)"
            )
            send(CallAnswer(request.id, error=reason))


def _answer(files: Files | None, request: Request) -> Iterator[CallAnswer]:
    """Compute a call and yield its answer; a long text comes in pieces.

    Raises:
        SnapshotError: there is none; one line that says why.
    """
    if files is None:
        raise SnapshotError("no file is read yet")
    if isinstance(request, Load):
        raise SnapshotError("a file is read already: start another reader for another file")
    value = compute(files, request)
    if not isinstance(value, str):
        yield CallAnswer(request.id, value)
        return
    for start in range(0, max(1, len(value)), PART):
        yield CallAnswer(request.id, value[start : start + PART], more=start + PART < len(value))


def _load(request: Load, source: int | None, send: Send, spent: list[object]) -> Files:
    """Load and replay the files within limits of memory and time.

    Args:
        request: the files to load.
        source: descriptor that stands for ``-``.
        send: sends progress and the result.
        spent: collects objects to free later.

    Raises:
        SnapshotError: a file cannot be read.
    """
    needed = _combine_estimates([estimate(path, request.memory) for path in request.paths])
    limits.restrict(needed)
    send(messages.Estimated(request.id, needed.byte, needed.expected, needed.allowed, str(needed)))
    with time_limit(allowed_s(needed)):
        return _read(request, source, send, spent)


def _read(request: Load, source: int | None, send: Send, spent: list[object]) -> Files:
    pace = ProgressPace(request.id, send)
    trace_filter = TraceFilter(request.device, request.first, request.last, request.minimal_size)
    # Freeze the loaded objects before the collector is on again: it would traverse all of them,
    # half a second for a million entries.
    with collector_off():
        read = [
            load(
                _open_path(path, source),
                progress=pace.report,
                trace_filter=trace_filter,
                memory=request.memory,
                # Only for the last file: the raw objects of the first would take memory meanwhile.
                spent=spent if number == len(request.paths) else None,
            )
            for number, path in enumerate(request.paths, start=1)
        ]
        gc.freeze()
    text, known = request.oom_text, request.circumstances
    if request.redact:
        read, text, known = _redact_files(read, text, known)
    files = tuple(Analysis(snapshot) for snapshot in read)
    pace.report(0, len(read), "checking")
    analysed = Files(files, tuple(file.faults for file in files), text, known)
    devices = analysed.files[0].devices
    summaries = []
    for number, device in enumerate(devices.values()):
        pace.report(number, len(devices), "replaying")
        summaries.append(device.summary(top=request.top))
    common = set(devices).intersection(*(other.devices for other in analysed.files))
    send(
        messages.Loaded(
            id=request.id,
            files=tuple(map(_file_info, read, analysed.warnings)),
            devices=tuple(summaries),
            common=tuple(sorted(common)),
        )
    )
    return analysed


def _open_path(path: str, source: int | None) -> Where:
    if path != STANDARD_INPUT:
        return path
    if source is None:
        raise SnapshotError("standard input: this reader has none")
    raw = io.FileIO(source, closefd=False)
    # Error messages show this name instead of the descriptor.
    raw.name = STANDARD_INPUT
    return io.BufferedReader(raw)


def _combine_estimates(estimates: list[Estimate]) -> Estimate:
    """Combine the estimates of several files that stay in memory together."""
    if len(estimates) == 1:
        return estimates[0]
    expected = [item.expected for item in estimates]
    allowed = [item.allowed for item in estimates if item.allowed is not None]
    available, memory = estimates[0].available, estimates[0].memory
    limit = limits.limit_of(available, memory)
    most = sum(allowed) if len(allowed) == len(estimates) else limit
    if most is not None and limit is not None:
        most = min(most, limit)
    return Estimate(
        sum(item.byte for item in estimates),
        sum(item.unpacked for item in estimates),
        None if None in expected else sum(item or 0 for item in expected),
        most,
        available,
        memory,
    )


def _redact_files(
    read: list[Snapshot], text: str, known: Circumstances | None
) -> tuple[list[Snapshot], str, Circumstances | None]:
    redacted = []
    for snapshot in read:
        without, redact = redact_snapshot(snapshot, (text,))
        redacted.append(without)
        text = redact(text)
        known = known and redact_circumstances(known, redact)
    return redacted, text, known


def _offset_notes(snapshot: Snapshot) -> list[str]:
    """Return a note for each device whose first entries a filter left out."""
    return [
        f"device {device.index}: event 0 is entry {device.first} of the file"
        for device in snapshot.devices
        if device.first
    ]


def _file_info(snapshot: Snapshot, warnings: tuple[str, ...]) -> FileInfo:
    return FileInfo(
        file=snapshot.file,
        container=snapshot.container,
        form=snapshot.form,
        byte=snapshot.byte,
        settings=snapshot.settings,
        warnings=(*snapshot.notes, *_offset_notes(snapshot), *warnings),
        host_segments=snapshot.host_segments,
    )
