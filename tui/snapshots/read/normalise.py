"""Conversion of a file's objects, of any torch version, to a filtered :class:`Snapshot`.

No file states its torch version, but torch's release history dates the keys: ``time_us`` was added
in 2.2, ``compile_context`` in 2.7, ``user_metadata`` and the setting
``graph_capture_record_stream_reuse`` in 2.9, ``pool_id`` in 2.12, ``host_segments`` in 2.14.

The final state (segments and blocks) is always complete. The replay runs backwards from the end, so
the filters have these effects:

- ``first`` drops the *oldest* entries: all later states stay exact.
- ``minimal_size`` drops small allocations and their frees: larger ones stay exact, while sums count
  the small ones as at the end. Segment, OOM and unknown entries remain.
- ``last`` drops the *newest* entries: earlier states are then off by the effect of the dropped
  entries.
- ``device`` drops whole devices; the data of the remaining one does not change.

A filter makes later steps smaller and faster. It does not reduce the cost of reading: a pickle can
only be unpacked completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from tui.core.text import numbers as fmt
from tui.snapshots.explain.inventory import KEY, parse_agent_record
from tui.snapshots.model.snapshot import (
    Annotation,
    DeviceSnapshot,
    Segment,
    Snapshot,
    SnapshotError,
    TorchVersions,
    empty_trace,
)
from tui.snapshots.read import naming
from tui.snapshots.read.columns import Conversion, FinalState, fill
from tui.snapshots.read.naming import Interner

Raw = Any
"""An object from the file, of any type."""
_SIZED = frozenset(("alloc", "free", "free_requested", "free_completed"))


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """The data to keep; the default is everything.

    Attributes:
        device: the only device to keep, by the file's number; ``None`` keeps all.
        first: number of the first trace entry to keep, on each device.
        last: number of the last trace entry to keep; ``None`` keeps up to the end.
        minimal_size: in bytes; smaller allocations and their frees are dropped.
    """

    device: int | None = None
    first: int = 0
    last: int | None = None
    minimal_size: int = 0

    def accepts_device(self, index: int) -> bool:
        """Return whether the filter keeps a device."""
        return self.device is None or self.device == index

    def accepts(self, entry: Any) -> bool:
        """Return whether a raw trace entry is large enough; entries without a valid size pass."""
        if not isinstance(entry, dict):
            return True
        action = entry.get("action")
        if not isinstance(action, str) or action not in _SIZED:
            return True
        size = entry.get("size")
        return not isinstance(size, int) or size >= self.minimal_size

    def inexact(self, newer: int, smaller: int) -> str:
        """Return why the replay is inexact for given numbers of dropped entries; empty if exact."""
        reasons = []
        if newer:
            reasons.append(f"{newer} newer events were left out")
        if smaller:
            reasons.append(
                f"{smaller} events below {self.minimal_size} bytes were left out, so sums count "
                "small allocations as they stand at the end"
            )
        return "; ".join(reasons)


EVERYTHING = TraceFilter()
"""The filter that drops nothing."""


_OF_ENTRIES = {
    "time_us": (2, 2),
    "compile_context": (2, 7),
    "user_metadata": (2, 9),
    "pool_id": (2, 12),
}
_OF_SETTINGS = {"graph_capture_record_stream_reuse": (2, 9)}
_OF_FILES = {"allocator_settings": (2, 2), "external_annotations": (2, 5), "host_segments": (2, 14)}
_IN_EVERY_ENTRY = ("compile_context", (2, 9))
"""A key in every entry of this version and later ones, regardless of the recording options."""


def versions(top: dict[Raw, Raw], traces: Iterable[list[Raw]]) -> TorchVersions:
    """Return the range of torch versions that the keys of a file indicate.

    Args:
        top: top-level dict of the file.
        traces: trace of each device; only one entry of each is examined.
    """
    settings = top.get("allocator_settings")
    entries = [trace[0] for trace in traces if trace and isinstance(trace[0], dict)]
    candidates = [version for key, version in _OF_FILES.items() if key in top]
    if isinstance(settings, dict):
        candidates += [version for key, version in _OF_SETTINGS.items() if key in settings]
    for entry in entries:
        candidates += [version for key, version in _OF_ENTRIES.items() if key in entry]
    key, since = _IN_EVERY_ENTRY
    older = bool(entries) and not any(key in entry for entry in entries)
    least = max(candidates, default=None)
    if older and least is not None and least >= since:
        return TorchVersions()  # contradictory keys: torch alone did not write this file
    return TorchVersions(least, since if older else None)


MOST_DEVICES = 1024
"""Maximum number of traces in a file; a machine has far fewer devices."""

_KNOWN = frozenset(("segments", "device_traces", "allocator_settings", "external_annotations", KEY))
_MOST_SETTINGS = 1024

Tick = Callable[[int, int], None]
"""Called with the number of processed entries and segments, and the total; may raise to cancel."""


def normalise(
    raw: object,
    *,
    file: str = "-",
    container: str = "objects",
    byte: int = 0,
    trace_filter: TraceFilter = EVERYTHING,
    consume: bool = False,
    spent: list[object] | None = None,
    most_items: int | None = None,
    notes: tuple[str, ...] = (),
    tick: Tick | None = None,
) -> Snapshot:
    """Convert the result of ``_snapshot()`` or ``memory_snapshot()`` to a snapshot.

    Args:
        raw: dict, or bare list of segments.
        file: name to show.
        container: container format, to show.
        byte: size of the file in bytes.
        trace_filter: selects the data to keep.
        consume: empty the lists of ``raw`` on the way, so that memory never contains both forms.
        spent: receives the items removed from them, in pieces, to free them later.
        most_items: maximum plausible number of entries, segments, blocks and annotations for a file
            of this size; a list that a file references repeatedly could pretend any number.
        notes: earlier notes, placed before those found here.
        tick: progress.

    Raises:
        SnapshotError: the data is not a snapshot, or no machine could have written it.
    """
    form, top = _find_top(raw)
    segments = _require_list(top, "segments")
    traces = _check_traces(_require_list(top, "device_traces") if "device_traces" in top else [])
    _check_count(segments, traces, _length(top.get("external_annotations")), most_items)
    torch = versions(top, traces)
    interner = Interner()
    total, done = len(segments) + sum(map(len, traces)), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if tick is not None:
            tick(done, total)

    conversion = Conversion(interner, consume, spent, advance)
    by_device, with_history = _convert_segments(segments, interner, advance)
    if with_history:
        form = "history"
    devices = []
    indexes = sorted(by_device.keys() | {i for i, trace in enumerate(traces) if trace})
    if trace_filter.device is not None and trace_filter.device not in indexes:
        have = ", ".join(map(str, indexes)) or "none"
        raise SnapshotError(f"has no device {trace_filter.device}: it has {have}")
    for index in indexes:
        if not trace_filter.accepts_device(index):
            interner.odd["devices left out by the filter"] += 1
            continue
        trace = traces[index] if index < len(traces) else []
        devices.append(
            _convert_device(index, by_device.get(index, []), trace, trace_filter, conversion)
        )
    agent = parse_agent_record(top)
    others = [naming.clean(key) for key in top if isinstance(key, str) and key not in _KNOWN]
    return Snapshot(
        file=file,
        container=container,
        form=form,
        byte=byte,
        devices=tuple(devices),
        frames=tuple(interner.frames),
        stacks=tuple(interner.stacks),
        streams=tuple(interner.streams),
        pools=tuple(interner.pools),
        contexts=tuple(interner.contexts),
        categories=tuple(interner.categories),
        settings=_convert_settings(top.get("allocator_settings")),
        annotations=_convert_annotations(top.get("external_annotations"), interner),
        host_segments=_length(top.get("host_segments")),
        notes=(*notes, *_list_notes(top, others, interner), *map(naming.clean, agent.faults)),
        torch=torch,
        agent=agent,
    )


def _find_top(raw: object) -> tuple[str, dict[Raw, Raw]]:
    if isinstance(raw, list):
        # ``memory_snapshot()`` returns this list; the first item distinguishes any other list.
        if raw and not (isinstance(raw[0], dict) and "blocks" in raw[0]):
            raise SnapshotError(
                "a list, but not one of segments: not an allocator snapshot as "
                "torch.cuda.memory._dump_snapshot writes it"
            )
        return "segments", {"segments": raw}
    if not isinstance(raw, dict):
        raise SnapshotError(
            f"holds {naming.describe_type(raw)}: not an allocator snapshot as "
            "torch.cuda.memory._dump_snapshot writes it"
        )
    if "segments" not in raw:
        names = ", ".join(
            naming.format_value(key)[:40] for key, _ in zip(raw, range(3), strict=False)
        )
        raise SnapshotError(
            f"has no segments (but {names or 'nothing at all'}): not an allocator snapshot as "
            "torch.cuda.memory._dump_snapshot writes it"
        )
    return "snapshot", raw


def _require_list(top: dict[Raw, Raw], key: str) -> list[Raw]:
    value = top[key]
    if not isinstance(value, list):
        raise SnapshotError(f"{key} is {naming.describe_type(value)} where a list belongs: damaged")
    return value


def _check_traces(raws: list[Raw]) -> list[list[Raw]]:
    if len(raws) > MOST_DEVICES:
        raise SnapshotError(
            f"holds {fmt.count(len(raws), 'trace')}; at most {MOST_DEVICES} can be: damaged"
        )
    traces: list[list[Raw]] = []
    for index, raw in enumerate(raws):
        if not isinstance(raw, list):
            raise SnapshotError(
                f"the trace of device {index} is {naming.describe_type(raw)} where a list belongs:"
                " damaged"
            )
        # Only a crafted file shares a list, and emptying it twice would lose the second copy.
        shared = any(raw is other for other in traces)
        traces.append(list(raw) if shared and raw else raw)
    return traces


def _check_count(
    segments: list[Raw], traces: list[list[Raw]], annotations: int, most: int | None
) -> None:
    if most is None:
        return
    count = annotations + len(segments) + sum(map(len, traces))
    for segment in segments:
        if isinstance(segment, dict):
            blocks = segment.get("blocks")
            count += len(blocks) if isinstance(blocks, (list, tuple)) else 0
    if count > most:
        raise SnapshotError(
            f"claims {fmt.grouped(count)} entries, blocks and annotations, more than a file of its "
            "size can hold: damaged or hostile"
        )


def _convert_segments(
    raws: list[Raw], interner: Interner, advance: Callable[[int], None]
) -> tuple[dict[int, list[Segment]], bool]:
    states = FinalState(interner)
    by_device: dict[int, list[Segment]] = {}
    for raw in raws:
        segment = states.segment(raw)
        if segment is not None:
            by_device.setdefault(segment.device, []).append(segment)
        advance(1)
    for segments in by_device.values():
        segments.sort(key=lambda segment: segment.address)
    return by_device, states.with_history


def _convert_device(
    index: int,
    segments: list[Segment],
    trace: list[Raw],
    trace_filter: TraceFilter,
    conversion: Conversion,
) -> DeviceSnapshot:
    whole = len(trace)
    stop = whole if trace_filter.last is None else max(0, min(whole, trace_filter.last + 1))
    first = max(0, min(trace_filter.first, stop))
    if first or stop < whole:
        trace = trace[first:stop]
    accepts = trace_filter.accepts if trace_filter.minimal_size > 0 else None
    columns, smaller = fill(trace, conversion, accepts)
    return DeviceSnapshot(
        index=index,
        segments=tuple(segments),
        trace=columns if whole else empty_trace(),
        skipped=first + (whole - stop) + smaller,
        first=first,
        inexact=trace_filter.inexact(whole - stop, smaller),
    )


def _convert_settings(raw: Raw) -> dict[str, str]:
    if not isinstance(raw, dict):
        return {}
    items = zip(raw.items(), range(_MOST_SETTINGS), strict=False)
    return {naming.format_value(key): naming.format_value(value) for (key, value), _ in items}


def _convert_annotations(raw: Raw, interner: Interner) -> tuple[Annotation, ...]:
    annotations = []
    for entry in raw if isinstance(raw, list) else ():
        time_us = entry.get("time_us") if isinstance(entry, dict) else None
        device = entry.get("device", 0) if isinstance(entry, dict) else None
        if not _has_64_bits(time_us) or not _has_64_bits(device):
            interner.odd["annotations without a proper time or device, left out"] += 1
            continue
        name, stage = (
            naming.format_value(entry.get("name")),
            naming.format_value(entry.get("stage")),
        )
        annotations.append(Annotation(name, stage, int(device), int(time_us)))
    return tuple(annotations)


def _has_64_bits(value: Raw) -> TypeGuard[int]:
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _length(raw: Raw) -> int:
    return len(raw) if isinstance(raw, (list, tuple)) else 0


def _list_notes(top: dict[Raw, Raw], others: list[str], interner: Interner) -> list[str]:
    lines = [f"{label}: {fmt.grouped(count)}" for label, count in sorted(interner.odd.items())]
    host = _length(top.get("host_segments"))
    if host:
        lines.append(
            f"{fmt.count(host, 'segment')} of pinned host memory, counted but not replayed"
        )
    unknown = [key for key in others if key not in ("host_segments", "host_traces")]
    if unknown:
        shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if unknown[3:] else "")
        lines.append(f"parts that this program does not know: {shown[:200]}")
    return lines
