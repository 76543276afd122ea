"""Compute the reader's methods: a function for each method of :mod:`tui.snapshots.model.calls`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis, compare
from tui.snapshots.analysis.moment import (
    begin_digits,
    group_of,
    map_lines,
    rank_digits,
    share_out_ranks,
    state_letters,
    used_digits,
)
from tui.snapshots.analysis.peak import account_peak
from tui.snapshots.analysis.report import (
    diff_markdown,
    diff_report,
    snapshot_markdown,
    snapshot_report,
)
from tui.snapshots.analysis.site_history import site_history
from tui.snapshots.analysis.sites import Query
from tui.snapshots.analysis.verdict import find_message, judge
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.calls import (
    DIFFERENCE,
    FLAME,
    LAYER_SIZES,
    MAP,
    METHODS,
    PART,
    PEAK,
    PINNING,
    REPORT,
    SET_OOM_TEXT,
    SITE_HISTORY,
    SITES,
    SIZES,
    STACK,
    STATE,
    STRETCH,
    TIMELINE,
    VERDICT,
    Arguments,
    Changes,
    DifferenceArguments,
    FlameArguments,
    LayerSizesArguments,
    MapArguments,
    MapPage,
    Method,
    OomTextArguments,
    PartArguments,
    PeakArguments,
    PinningArguments,
    ReportArguments,
    SiteHistoryArguments,
    SitesArguments,
    SizesArguments,
    StackArguments,
    StateArguments,
    Stretch,
    StretchArguments,
    TimelineArguments,
    Value,
    VerdictArguments,
)
from tui.snapshots.model.pictures import (
    AllocationSize,
    Flame,
    LayerSize,
    Piece,
    Pinning,
    RowPicture,
    SiteHistory,
    Timeline,
)
from tui.snapshots.model.results import Part, PeakAccount, SiteListing, State, Verdict
from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.reader.messages import Call
from workloads.protocol.wire import WireError, to_plain

MOST_PINNING = 64
NO_MESSAGE = (
    'the text of the exception was not understood: it contains neither "Tried to allocate …" nor '
    '"memory allocation failed with OOM …": give the message of the torch.OutOfMemoryError'
)
NO_MESSAGE_FITS = (
    "the text of the exception fits no OOM of this file: another size or another device is named "
    "in it, so it was left aside"
)
SCHEMA = 1
"""Version of the JSON report's format."""


class Files:
    """The loaded file, or two to compare. All methods but the difference use the first.

    Args:
        files: loaded, not yet replayed.
        warnings: findings of each file's checks.
        oom_text: exception messages.
        circumstances: facts that a watch recorded about the program.
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
        self.texts = parse_oom_texts(oom_text)
        self.warnings = ((*warnings[0], *self._check_oom_text(oom_text)), *warnings[1:])
        self._pieces: tuple[tuple[int, int | None, int], tuple[Piece, ...]] | None = None

    def _check_oom_text(self, oom_text: str) -> tuple[str, ...]:
        """Return a note if the exception text has no usable message."""
        if not oom_text.strip():
            return ()
        if not self.texts:
            return (NO_MESSAGE,)
        devices = self.files[0].devices.values()
        ooms = [(device, event) for device in devices for event in device.replay.ooms]
        if ooms and not any(find_message(device, event, self.texts) for device, event in ooms):
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
        """Return the pieces of a segment at an event. The last result is cached."""
        key = (device, event, row)
        if self._pieces is None or self._pieces[0] != key:
            self._pieces = (key, self.device(device).pieces(event, row))
        return self._pieces[1]


COMPUTATIONS: dict[str, Callable[[Files, Any], Any]] = {}
"""The function of each method, by the method's name."""


def computes(
    method: Method[Arguments, Value],
) -> Callable[[Callable[[Files, Arguments], Value]], Callable[[Files, Arguments], Value]]:
    """Register a function that computes a method."""

    def register(
        function: Callable[[Files, Arguments], Value],
    ) -> Callable[[Files, Arguments], Value]:
        COMPUTATIONS[method.name] = function
        return function

    return register


def compute(files: Files, call: Call) -> Any:
    """Compute the value of one call.

    Raises:
        SnapshotError: the call has no value; the text is one line.
    """
    method = METHODS.get(call.method)
    if method is None:
        raise SnapshotError(f"this reader has no method {call.method}")
    try:
        arguments = method.parse_arguments(call.arguments)
    except WireError as error:
        raise SnapshotError(f"the call does not fit this reader: {error}") from error
    try:
        return COMPUTATIONS[method.name](files, arguments)
    except (LookupError, ValueError) as error:
        # str() of a KeyError would put its text into quotes.
        raise SnapshotError(str(error.args[0] if error.args else error)) from error


# ---- the methods --------------------------------------------------------------------------------


@computes(SET_OOM_TEXT)
def _set_oom_text(files: Files, arguments: OomTextArguments) -> int:
    """Replace the known exception messages; return their number."""
    files.texts = parse_oom_texts(arguments.text)
    return len(files.texts)


@computes(VERDICT)
def _verdict(files: Files, arguments: VerdictArguments) -> Verdict:
    device = files.device(arguments.device)
    return judge(
        device, arguments.event, files.texts, top=arguments.top, circumstances=files.circumstances
    )


@computes(STATE)
def _state(files: Files, arguments: StateArguments) -> State:
    return files.device(arguments.device).state(arguments.event)


@computes(PEAK)
def _peak(files: Files, arguments: PeakArguments) -> PeakAccount:
    return account_peak(files.device(arguments.device))


@computes(TIMELINE)
def _timeline(files: Files, arguments: TimelineArguments) -> Timeline:
    return files.device(arguments.device).timeline(
        arguments.width,
        stacking=arguments.stacking,
        first=arguments.first,
        last=arguments.last,
    )


@computes(PART)
def _part(files: Files, arguments: PartArguments) -> Part:
    """Return the contents of one timeline layer at an event."""
    device = files.device(arguments.device)
    return device.part(arguments.event, arguments.stacking, arguments.layer)


@computes(LAYER_SIZES)
def _layer_sizes(files: Files, arguments: LayerSizesArguments) -> tuple[LayerSize, ...]:
    return files.device(arguments.device).layer_sizes(arguments.event, arguments.stacking)


@computes(SITE_HISTORY)
def _site_history(files: Files, arguments: SiteHistoryArguments) -> SiteHistory:
    return site_history(files.device(arguments.device), arguments.site, arguments.width)


@computes(SITES)
def _sites(files: Files, arguments: SitesArguments) -> SiteListing:
    query = Query(
        event=arguments.event,
        grouping=arguments.grouping,
        search=arguments.search,
        regex=arguments.regex,
    )
    device = files.device(arguments.device)
    listing = device.sites(query).listing(
        arguments.path, order=arguments.order, limit=arguments.limit
    )
    if arguments.path or arguments.grouping != "site":
        return listing
    ranks = device.layers("site").ranks
    return replace(
        listing, rows=tuple(replace(row, rank=ranks.get(row.key)) for row in listing.rows)
    )


@computes(FLAME)
def _flame(files: Files, arguments: FlameArguments) -> Flame:
    return files.device(arguments.device).flame(
        arguments.event, arguments.path, max(1, arguments.width), all_frames=arguments.all_frames
    )


@computes(SIZES)
def _sizes(files: Files, arguments: SizesArguments) -> tuple[AllocationSize, ...]:
    return files.device(arguments.device).sizes(
        arguments.event, arguments.path, arguments.limit, all_frames=arguments.all_frames
    )


@computes(STACK)
def _stack(files: Files, arguments: StackArguments) -> tuple[Frame, ...]:
    """Return the frames of a stack, innermost first."""
    return files.files[0].stacks.of(arguments.stack)


@computes(MAP)
def _map(files: Files, arguments: MapArguments) -> MapPage:
    device = files.device(arguments.device)
    rows = device.map_rows(arguments.event)
    lines = map_lines(rows, arguments.unfolded)
    first = max(0, arguments.first)
    pictures = []
    for row, group in lines[first : first + arguments.count]:
        if group:
            in_use = device.in_use(arguments.event, group_of(rows, row))
            sites = share_out_ranks(in_use, arguments.width)
            pictures.append(RowPicture(row, "", "", "", group, sites))
            continue
        cells = device.cells(arguments.event, row.index, arguments.width)
        drawn = state_letters(cells), used_digits(cells), begin_digits(cells)
        pictures.append(RowPicture(row, *drawn, sites=rank_digits(cells)))
    reserved = sum(row.size for row in rows)
    sites_of_all = device.in_use(arguments.event)
    return MapPage(tuple(pictures), len(lines), len(rows), reserved, sites_of_all)


@computes(STRETCH)
def _stretch(files: Files, arguments: StretchArguments) -> Stretch:
    at, row = arguments.event, arguments.row
    device = files.device(arguments.device)
    cells = device.cells(at, row, arguments.width, start=arguments.start, end=arguments.end)
    stretch = next(
        (
            piece
            for piece in files.pieces(arguments.device, at, row)
            if piece.address <= arguments.address < piece.address + piece.size
        ),
        None,
    )
    frames: tuple[Frame, ...] = ()
    if stretch is not None and stretch.requested is not None:
        stacks = files.files[0].stacks
        frames = tuple(
            stacks.frames[frame]
            for frame in stacks.stack(stretch.stack)
            if stacks.kind(frame) != "native"
        )
    in_use = sorted(device.in_use(at, (row,)), key=lambda site: -site.bytes)
    return Stretch(
        state_letters(cells),
        used_digits(cells),
        begin_digits(cells),
        stretch,
        frames,
        rank_digits(cells),
        tuple(in_use),
    )


@computes(PINNING)
def _pinning(files: Files, arguments: PinningArguments) -> Pinning | None:
    """Return the blocks whose release would free a segment's longest span, if any is in use."""
    most = max(1, min(arguments.most, MOST_PINNING))
    return files.device(arguments.device).pinning(arguments.event, arguments.row, most)


@computes(DIFFERENCE)
def _difference(files: Files, arguments: DifferenceArguments) -> Changes:
    """Compare one device of the two files."""
    if len(files.files) < 2:
        raise SnapshotError("only one file is read: a difference needs two")
    a, b = files.files[:2]
    device = arguments.device
    if device not in a.devices.keys() & b.devices.keys():
        raise SnapshotError(f"device {device} is not in both files")
    difference = compare(a, b, at_peak=arguments.at_peak, grouping=arguments.grouping)[device]
    shown = replace(difference, rows=difference.rows[: arguments.limit])
    return Changes(shown, len(difference.rows) - len(shown.rows))


@computes(REPORT)
def _report(files: Files, arguments: ReportArguments) -> str:
    """Return a report on the file, or on the difference between two files."""
    if len(files.files) > 1:
        return _report_of_two(files, arguments)
    write = snapshot_markdown if arguments.form == "markdown" else snapshot_report
    report = write(files.files[0], files.warnings[0], arguments, files.texts, files.circumstances)
    return report if isinstance(report, str) else _format_json(report)


def _report_of_two(files: Files, arguments: ReportArguments) -> str:
    a, b = files.files[:2]
    differences = compare(a, b, at_peak=arguments.at_peak)
    if arguments.device is not None:
        differences = {
            index: difference
            for index, difference in differences.items()
            if index == arguments.device
        }
    if not differences:
        raise SnapshotError("the two files have no such device in common")
    names = (a.snapshot.file, b.snapshot.file)
    if arguments.form == "markdown":
        return diff_markdown(differences, *names)
    return _format_json(diff_report(differences, *names))


def _format_json(value: dict[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **to_plain(value)}, allow_nan=False, indent=2) + "\n"
