"""The registry of what can be computed of files that are read: each analysis, declared once.

A method is a function of the files and one frozen dataclass of arguments. Its signature gives the
types of both ends of the pipe; ``await reader.call(SITES, SitesArguments(…))`` returns its type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis, compare
from tui.snapshots.analysis.markdown import diff_markdown, snapshot_markdown
from tui.snapshots.analysis.moment import begin_digits, state_letters, used_digits
from tui.snapshots.analysis.report import diff_report, snapshot_report
from tui.snapshots.analysis.sites import Query
from tui.snapshots.analysis.verdict import parse_oom_texts
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.pictures import Piece, Pinning, RowPicture, Stacking, Timeline
from tui.snapshots.model.results import (
    Changes,
    Grouping,
    MapPage,
    OomText,
    Order,
    Part,
    SiteListing,
    State,
    Stretch,
    Verdict,
)
from tui.snapshots.model.snapshot import Frame, SnapshotError
from tui.snapshots.reader.messages import Call, Method
from workloads.protocol.wire import WireError, to_plain

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


class Files:
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
        self.circumstances = circumstances
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

    def device(self, index: int) -> DeviceAnalysis:
        """Return one device of the first file.

        Raises:
            SnapshotError: the file has no such device.
        """
        devices = self.files[0].devices
        if index not in devices:
            have = ", ".join(map(str, devices)) or "none"
            raise SnapshotError(f"no device {index} in this file: it has {have}")
        return devices[index]

    def pieces(self, device: int, event: int | None, row: int) -> tuple[Piece, ...]:
        """Return the pieces of a segment at an event; those of the newest call are cached."""
        key = (device, event, row)
        if self._pieces is None or self._pieces[0] != key:
            self._pieces = (key, self.device(device).pieces(event, row))
        return self._pieces[1]


def compute(files: Files, call: Call) -> Any:
    """Return the value of one call.

    Raises:
        SnapshotError: there is none; one line that says why.
    """
    method = METHODS.get(call.method)
    if method is None:
        raise SnapshotError(f"this reader has no method {call.method}")
    try:
        return method.compute(files, method.parse_arguments(call.arguments))
    except WireError as error:
        raise SnapshotError(f"the call does not fit this reader: {error}") from error
    except (LookupError, ValueError) as error:
        # str() of a KeyError would put its text into quotes.
        raise SnapshotError(str(error.args[0] if error.args else error)) from error


def _messages_in(text: str) -> tuple[OomText, ...]:
    lower = text.lower()
    told = "tried to allocate" in lower or "allocation failed with oom" in lower
    return parse_oom_texts(text) if told else ()


# ---- the methods -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OomTextArguments:
    text: str


def _set_oom_text(files: Files, arguments: OomTextArguments) -> int:
    """Put messages of exceptions in place of those known so far; return how many there are."""
    files.texts = _messages_in(arguments.text)
    return len(files.texts)


SET_OOM_TEXT = Method("set_oom_text", _set_oom_text)


@dataclass(frozen=True, slots=True)
class VerdictArguments:
    device: int
    event: int
    top: int = 10


def _verdict(files: Files, arguments: VerdictArguments) -> Verdict:
    return files.device(arguments.device).verdict(
        arguments.event, files.texts, top=arguments.top, circumstances=files.circumstances
    )


VERDICT = Method("verdict", _verdict)


@dataclass(frozen=True, slots=True)
class StateArguments:
    device: int
    event: int | None


def _state(files: Files, arguments: StateArguments) -> State:
    return files.device(arguments.device).state(arguments.event)


STATE = Method("state", _state)


@dataclass(frozen=True, slots=True)
class TimelineArguments:
    device: int
    width: int
    """Columns."""
    first: int = 0
    last: int | None = None
    stacking: Stacking = "site"


def _timeline(files: Files, arguments: TimelineArguments) -> Timeline:
    return files.device(arguments.device).timeline(
        arguments.width,
        stacking=arguments.stacking,
        first=arguments.first,
        last=arguments.last,
    )


TIMELINE = Method("timeline", _timeline)


@dataclass(frozen=True, slots=True)
class PartArguments:
    device: int
    event: int | None
    stacking: Stacking
    layer: str
    """Its key; empty for the rest."""


def _part(files: Files, arguments: PartArguments) -> Part:
    """Return what one layer of the timeline held at an event."""
    device = files.device(arguments.device)
    return device.part(arguments.event, arguments.stacking, arguments.layer)


PART = Method("part", _part)


@dataclass(frozen=True, slots=True)
class SitesArguments:
    device: int
    event: int | None
    path: tuple[str, ...] = ()
    """The node whose children are listed."""
    grouping: Grouping = "site"
    order: Order = "bytes"
    search: str = ""
    regex: bool = False
    limit: int = 200


def _sites(files: Files, arguments: SitesArguments) -> SiteListing:
    query = Query(
        event=arguments.event,
        grouping=arguments.grouping,
        search=arguments.search,
        regex=arguments.regex,
    )
    tree = files.device(arguments.device).sites(query)
    return tree.listing(arguments.path, order=arguments.order, limit=arguments.limit)


SITES = Method("sites", _sites, apart=lambda arguments: arguments.path)


@dataclass(frozen=True, slots=True)
class StackArguments:
    stack: int


def _stack(files: Files, arguments: StackArguments) -> tuple[Frame, ...]:
    """Return the frames of a stack, innermost first."""
    return files.files[0].stacks.of(arguments.stack)


STACK = Method("stack", _stack)


@dataclass(frozen=True, slots=True)
class MapArguments:
    device: int
    event: int | None
    first: int
    """The first row."""
    count: int
    """Of rows."""
    width: int
    """Cells of a row."""


def _map(files: Files, arguments: MapArguments) -> MapPage:
    device = files.device(arguments.device)
    rows = device.map_rows(arguments.event)
    first = max(0, arguments.first)
    pictures = []
    for row in rows[first : first + arguments.count]:
        cells = device.cells(arguments.event, row.index, arguments.width)
        pictures.append(
            RowPicture(row, state_letters(cells), used_digits(cells), begin_digits(cells))
        )
    return MapPage(tuple(pictures), len(rows))


MAP = Method("map", _map)


@dataclass(frozen=True, slots=True)
class StretchArguments:
    device: int
    event: int | None
    row: int
    start: int
    end: int
    """The stretch of addresses that is drawn."""
    width: int
    """Cells."""
    address: int
    """Of the piece that is described."""


def _stretch(files: Files, arguments: StretchArguments) -> Stretch:
    at, row = arguments.event, arguments.row
    device = files.device(arguments.device)
    cells = device.cells(at, row, arguments.width, start=arguments.start, end=arguments.end)
    found = next(
        (
            piece
            for piece in files.pieces(arguments.device, at, row)
            if piece.address <= arguments.address < piece.address + piece.size
        ),
        None,
    )
    frames: tuple[Frame, ...] = ()
    if found is not None and found.requested is not None:
        stacks = files.files[0].stacks
        frames = tuple(
            stacks.frames[frame]
            for frame in stacks.stack(found.stack)
            if stacks.kind(frame) != "native"
        )
    return Stretch(state_letters(cells), used_digits(cells), begin_digits(cells), found, frames)


STRETCH = Method("stretch", _stretch)


@dataclass(frozen=True, slots=True)
class PinningArguments:
    device: int
    event: int | None
    row: int
    most: int = 1
    """Blocks that may be released."""


def _pinning(files: Files, arguments: PinningArguments) -> Pinning | None:
    """Return the blocks whose release would free the longest span of a segment, if any is used."""
    most = max(1, min(arguments.most, MOST_PINNING))
    return files.device(arguments.device).pinning(arguments.event, arguments.row, most)


PINNING = Method("pinning", _pinning)


@dataclass(frozen=True, slots=True)
class DifferenceArguments:
    device: int
    at_peak: bool = False
    grouping: Grouping = "site"
    limit: int = 300


def _difference(files: Files, arguments: DifferenceArguments) -> Changes:
    """Return what changed from the first file to the second, on one device."""
    if len(files.files) < 2:
        raise SnapshotError("only one file is read: a difference needs two")
    a, b = files.files[:2]
    device = arguments.device
    if device not in a.devices.keys() & b.devices.keys():
        raise SnapshotError(f"device {device} is not in both files")
    found = compare(a, b, at_peak=arguments.at_peak, grouping=arguments.grouping)[device]
    shown = replace(found, rows=found.rows[: arguments.limit])
    return Changes(shown, len(found.rows) - len(shown.rows))


DIFFERENCE = Method("difference", _difference)


@dataclass(frozen=True, slots=True)
class ReportArguments:
    form: Literal["json", "markdown"]
    device: int | None = None
    event: int | None = None
    """A state to report on besides; ``None`` for none."""
    top: int = 10
    at_peak: bool = True
    """Two files are compared at their peaks, else at their ends."""


def _report(files: Files, arguments: ReportArguments) -> str:
    """Return a report on the file, or where two are read on their difference."""
    if len(files.files) > 1:
        return _report_of_two(files, arguments)
    write = snapshot_markdown if arguments.form == "markdown" else snapshot_report
    made = write(
        files.files[0],
        files.warnings[0],
        device=arguments.device,
        at=arguments.event,
        top=arguments.top,
        texts=files.texts,
        circumstances=files.circumstances,
    )
    return made if isinstance(made, str) else _json(made)


def _report_of_two(files: Files, arguments: ReportArguments) -> str:
    a, b = files.files[:2]
    found = compare(a, b, at_peak=arguments.at_peak)
    if arguments.device is not None:
        found = {index: one for index, one in found.items() if index == arguments.device}
    if not found:
        raise SnapshotError("the two files have no such device in common")
    names = (a.snapshot.file, b.snapshot.file)
    if arguments.form == "markdown":
        return diff_markdown(found, *names)
    return _json(diff_report(found, *names))


def _json(value: dict[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **to_plain(value)}, allow_nan=False, indent=2) + "\n"


REPORT = Method("report", _report)

METHODS: dict[str, Method[Any, Any]] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Method)
}
"""The methods above, by name."""
