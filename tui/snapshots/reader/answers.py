"""What can be asked of files that are read, as messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis, compare
from tui.snapshots.analysis.markdown import diff_markdown, snapshot_markdown
from tui.snapshots.analysis.moment import begin_digits, state_letters, used_digits
from tui.snapshots.analysis.report import diff_report, snapshot_report
from tui.snapshots.analysis.sites import Query
from tui.snapshots.analysis.verdict import parse_oom_texts
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.pictures import Piece, RowPicture
from tui.snapshots.model.results import OomText
from tui.snapshots.model.snapshot import Frame, SnapshotError
from tui.snapshots.reader import messages as m
from workloads.protocol.wire import to_plain

MOST_PINNING = 64
NO_MESSAGE = (
    'the text of the exception was not understood: it holds neither "Tried to allocate …" nor '
    '"memory allocation failed with OOM …": give the message of the torch.OutOfMemoryError'
)
NO_MESSAGE_FITS = (
    "the text of the exception fits no OOM of this file: another size or another device is named "
    "in it, so it was left aside"
)
SCHEMA = 1
"""The version of what is printed as JSON."""


class Answers:
    """One file, or two to compare; everything but the difference is of the first.

    Args:
        files: read and not yet replayed.
        warnings: what the checks of each file found.
        oom_text: messages of exceptions.
        circumstances: what a watch knows of the program.
    """

    def __init__(
        self,
        files: tuple[Analysis, ...],
        warnings: tuple[tuple[str, ...], ...],
        oom_text: str,
        circumstances: Circumstances | None = None,
    ) -> None:
        self.files = files
        self._circumstances = circumstances
        self.texts = _messages_in(oom_text)
        self.warnings = ((*warnings[0], *self._not_understood(oom_text)), *warnings[1:])
        self._pieces: tuple[tuple[int, int | None, int], tuple[Piece, ...]] | None = None

    def _not_understood(self, oom_text: str) -> tuple[str, ...]:
        """Return a note if the text of an exception tells nothing."""
        if not oom_text.strip():
            return ()
        if not self.texts:
            return (NO_MESSAGE,)
        devices = self.files[0].devices.values()
        ooms = [(device, event) for device in devices for event in device.replay.ooms]
        if ooms and not any(device.message_of(event, self.texts) for device, event in ooms):
            return (NO_MESSAGE_FITS,)
        return ()

    def answer(self, request: m.Request) -> m.Answer:
        """Answer one request.

        Raises:
            SnapshotError: it cannot be answered; one line that says why.
        """
        handler = self._HANDLERS.get(type(request))
        if handler is None:
            raise SnapshotError("a file is read already: start another reader for another file")
        try:
            return handler(self, request)
        except (LookupError, ValueError) as error:
            # str() of a KeyError would put its text into quotes.
            raise SnapshotError(str(error.args[0] if error.args else error)) from error

    def _state(self, request: m.AskState) -> m.StateIs:
        return m.StateIs(request.id, self._device(request.device).state(request.event))

    def _timeline(self, request: m.AskTimeline) -> m.TimelineIs:
        made = self._device(request.device).timeline(
            request.width, stacking=request.stacking, first=request.first, last=request.last
        )
        return m.TimelineIs(request.id, made)

    def _part(self, request: m.AskPart) -> m.PartIs:
        device = self._device(request.device)
        return m.PartIs(request.id, device.part(request.event, request.stacking, request.layer))

    def _verdict(self, request: m.AskVerdict) -> m.VerdictIs:
        device = self._device(request.device)
        found = device.verdict(
            request.event, self.texts, top=request.top, circumstances=self._circumstances
        )
        return m.VerdictIs(request.id, found)

    def _pinning(self, request: m.AskPinning) -> m.PinningIs:
        most = max(1, min(request.most, MOST_PINNING))
        found = self._device(request.device).pinning(request.event, request.row, most)
        return m.PinningIs(request.id, found)

    def _set_text(self, request: m.SetOomText) -> m.TextTaken:
        self.texts = _messages_in(request.text)
        return m.TextTaken(request.id, len(self.texts))

    def _device(self, index: int) -> DeviceAnalysis:
        devices = self.files[0].devices
        if index not in devices:
            have = ", ".join(map(str, devices)) or "none"
            raise SnapshotError(f"no device {index} in this file: it has {have}")
        return devices[index]

    def _sites(self, request: m.AskSites) -> m.SitesAre:
        query = Query(
            event=request.event,
            grouping=request.grouping,
            search=request.search,
            regex=request.regex,
        )
        tree = self._device(request.device).sites(query)
        listing = tree.listing(request.path, order=request.order, limit=request.limit)
        return m.SitesAre(request.id, listing)

    def _stack(self, request: m.AskStack) -> m.StackIs:
        return m.StackIs(request.id, self.files[0].stacks.of(request.stack))

    def _map(self, request: m.AskMap) -> m.MapIs:
        device = self._device(request.device)
        rows = device.map_rows(request.event)
        shown = rows[max(0, request.first) : max(0, request.first) + request.count]
        pictures = []
        for row in shown:
            cells = device.cells(request.event, row.index, request.width)
            drawn = state_letters(cells), used_digits(cells), begin_digits(cells)
            pictures.append(RowPicture(row, *drawn))
        return m.MapIs(request.id, tuple(pictures), len(rows))

    def _stretch(self, request: m.AskStretch) -> m.StretchIs:
        device = self._device(request.device)
        cells = device.cells(
            request.event, request.row, request.width, start=request.start, end=request.end
        )
        key = (request.device, request.event, request.row)
        if self._pieces is None or self._pieces[0] != key:
            self._pieces = (key, device.pieces(request.event, request.row))
        found = next(
            (
                piece
                for piece in self._pieces[1]
                if piece.address <= request.address < piece.address + piece.size
            ),
            None,
        )
        frames: tuple[Frame, ...] = ()
        if found is not None and found.requested is not None:
            stacks = self.files[0].stacks
            frames = tuple(
                stacks.frames[frame]
                for frame in stacks.stack(found.stack)
                if stacks.kind(frame) != "native"
            )
        return m.StretchIs(
            request.id, state_letters(cells), used_digits(cells), begin_digits(cells), found, frames
        )

    def _difference(self, request: m.AskDifference) -> m.DifferenceIs:
        if len(self.files) < 2:
            raise SnapshotError("only one file is read: a difference needs two")
        a, b = self.files[:2]
        if request.device not in a.devices.keys() & b.devices.keys():
            raise SnapshotError(f"device {request.device} is not in both files")
        found = compare(a, b, at_peak=request.at_peak, grouping=request.grouping)[request.device]
        shown = replace(found, rows=found.rows[: request.limit])
        return m.DifferenceIs(request.id, shown, len(found.rows) - len(shown.rows))

    def _export(self, request: m.Export) -> m.Exported:
        if len(self.files) > 1:
            return m.Exported(request.id, self._exported_difference(request))
        write = snapshot_markdown if request.form == "markdown" else snapshot_report
        made = write(
            self.files[0],
            self.warnings[0],
            device=request.device,
            at=request.event,
            top=request.top,
            texts=self.texts,
            circumstances=self._circumstances,
        )
        return m.Exported(request.id, made if isinstance(made, str) else _json(made))

    def _exported_difference(self, request: m.Export) -> str:
        a, b = self.files[:2]
        found = compare(a, b, at_peak=request.at_peak)
        if request.device is not None:
            found = {request.device: found[request.device]} if request.device in found else {}
        if not found:
            raise SnapshotError("the two files have no such device in common")
        names = (a.snapshot.file, b.snapshot.file)
        if request.form == "markdown":
            return diff_markdown(found, *names)
        return _json(diff_report(found, *names))

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], m.Answer]]] = {
        m.AskState: _state,
        m.AskTimeline: _timeline,
        m.AskPart: _part,
        m.AskSites: _sites,
        m.AskStack: _stack,
        m.AskMap: _map,
        m.AskStretch: _stretch,
        m.AskPinning: _pinning,
        m.AskVerdict: _verdict,
        m.AskDifference: _difference,
        m.SetOomText: _set_text,
        m.Export: _export,
    }


def _json(value: dict[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **to_plain(value)}, allow_nan=False, indent=2) + "\n"


def _messages_in(text: str) -> tuple[OomText, ...]:
    lower = text.lower()
    told = "tried to allocate" in lower or "allocation failed with oom" in lower
    return parse_oom_texts(text) if told else ()
