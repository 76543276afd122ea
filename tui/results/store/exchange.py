"""Export of results to a file, optionally without names, and import from a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tui.core.text.redact import HOST, Redactor, whole_words, with_texts
from tui.results.store.records import (
    Facts,
    Record,
    StoredResult,
    build_record,
    collect_output_facts,
    compute_id,
    encode_canonical,
    find_devices,
    is_storable,
)
from tui.results.store.validity import (
    MOST_ITEMS,
    ImpossibleError,
    check_result,
    count_separators,
    has_same_content,
    parse_finite,
)
from tui.runs.state.runs import Conditions
from workloads.protocol import wire
from workloads.protocol.results import Comparison, Environment, RunResult

FORMAT = "gpu-workbench results"
VERSION = 1
"""Format version, incremented when an older program would misread lines. See docs/results.md."""
RUN_SCHEMA = 1
"""Version of the output of ``run --json``, which can be imported too."""
LONGEST_LINE = 16 * 1024 * 1024
"""Most bytes of a line, and of the output of ``run --json``."""
MOST_RESULTS = 100_000
"""Most results of a file; so many take half a gigabyte of memory."""
MOST_SEPARATORS = 20_000_000
"""Most separators of values in a file; a result has about 120."""
LONGEST_FILE = 256 * 1024 * 1024
"""Most bytes of a file; a result has about 10 kB."""
_TOO_LONG = f"it is longer than {LONGEST_LINE >> 20} MiB: no results; nothing was imported"


class ExchangeError(ValueError):
    """A file has no results, or an unreadable line; one line, with the file's name."""


_OWN_WORDS = (
    "id", "kind", "workload", "device", "devices", "status", "budget", "process", "sweep", "flag",
    "flags", "verdict", "time", "spans", "run", "comparison",
)  # fmt: skip
"""Fields of a record and of a result that have only our own words."""
T = TypeVar("T", Record, RunResult, Comparison)


@dataclass(frozen=True, slots=True)
class _ResultLine:
    """One result in a file."""

    record: Record
    facts: Facts
    tags: tuple[str, ...] = ()


# ---- written to a file -------------------------------------------------------------------------


def encode_lines(results: Iterable[StoredResult]) -> Iterator[str]:
    """Yield a header and a line for each result, without line ends."""
    yield encode_canonical({"format": FORMAT, "version": VERSION})
    for result in results:
        yield encode_canonical(_ResultLine(result.record, result.facts, result.tags))


class ResultRedaction:
    """Removes identifying text from results: user names, the box, and ids of the GPU.

    A box has the same stand-in in all results of one export: ``host``, ``host 2`` and so on, in
    order of appearance. Its name is removed from other texts too.

    Args:
        boxes: names of all boxes in the results.
        home: our own home directory.
    """

    def __init__(self, boxes: Iterable[str], home: Path | None = None) -> None:
        home = home or Path.home()
        self._users = Redactor([f"/home/{home.name}/"], home=str(home))
        self._boxes = whole_words(boxes, within=r"\w-")
        self._named: dict[tuple[str, str], str] = {}

    def __call__(self, stored: StoredResult) -> StoredResult:
        """Return a result without names, under the id of its changed content."""
        record = self._redact_texts(stored.record)
        record = replace(
            record,
            run=record.run and self._redact_texts(record.run),
            comparison=record.comparison and self._redact_texts(record.comparison),
        )
        record = replace(record, id=_recompute_id(stored.record, record))
        return replace(stored, record=record, facts=self.facts(stored.facts))

    def _redact_texts(self, result: T) -> T:
        """Redact the texts of a record or its result, except our own words.

        A box may be called ``cpu``. The id stays, so that copies from several sources are imported
        once.
        """
        changed = with_texts(result, self.text, keys=False)
        own_words = {name: getattr(result, name) for name in _OWN_WORDS if hasattr(result, name)}
        return replace(changed, **own_words)

    def facts(self, facts: Facts) -> Facts:
        """Return the facts without names."""
        values = {
            name: self._replace_box(name, text) if name in ("box", "gpu uuid") else self.text(text)
            for name, text in facts.values.items()
        }
        return replace(facts, values=values)

    def text(self, text: str) -> str:
        """Return a text without the names of users and boxes."""
        text = self._users(text)
        return text if self._boxes is None else self._boxes.sub(HOST, text)

    def _replace_box(self, name: str, text: str) -> str:
        key = (name, text)
        if key not in self._named:
            before = sum(of == name for of, _ in self._named)
            word = HOST if name == "box" else "GPU"
            self._named[key] = word if before == 0 else f"{word} {before + 1}"
        return self._named[key]


def _recompute_id(before: Record, after: Record) -> str:
    """Return the id of a changed record, a new one only if its measurement changed."""
    records = [
        (record.run or record.comparison, record.at, record.id) for record in (before, after)
    ]
    ids = [compute_id(measured, at) if measured else own for measured, at, own in records]
    return before.id if ids[0] == ids[1] else ids[1]


# ---- read from a file --------------------------------------------------------------------------


def read_file(path: Path) -> list[StoredResult]:
    """Read the results of a file: exported results, or the output of ``run --json``.

    Raises:
        ExchangeError: the file has neither, is too large, or has an invalid line; the text names
            the line and the reason.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = _read_bounded(path, 1, file)
        parsed = _parse_json(head)
        if isinstance(parsed, dict) and parsed.get("format") == FORMAT:
            _check_version(path, "version", parsed.get("version"), VERSION)
            return _read_lines(path, file, len(head))
        rest = file.read(LONGEST_LINE + 1 - len(head))
    if len(head) + len(rest) > LONGEST_LINE:
        raise ExchangeError(f"{path}: {_TOO_LONG}")
    whole = _parse_json(head + rest)
    if isinstance(whole, dict) and "results" in whole and "environment" in whole:
        _check_version(path, "schema", whole.get("schema"), RUN_SCHEMA)
        try:
            parse_finite(head + rest)
            results = _parse_run_output(path, whole)
            for result in results:
                check_result(result)
        except ImpossibleError as error:
            raise ExchangeError(f"{path}: {error}; nothing was imported") from error
        return results
    raise ExchangeError(
        f"{path}: it has no results: give a file that results export or run --json wrote"
    )


def _read_bounded(path: Path, number: int, file: BinaryIO) -> bytes:
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise ExchangeError(f"{path}: line {number}: {_TOO_LONG}")
    return line


def _read_lines(path: Path, file: BinaryIO, read: int) -> list[StoredResult]:
    results: list[StoredResult] = []
    numbers: dict[str, int] = {}
    number = 1
    separators = 0
    while text := _read_bounded(path, number + 1, file):
        number, read = number + 1, read + len(text)
        separators += count_separators(text)
        if read > LONGEST_FILE or separators > MOST_SEPARATORS or len(results) == MOST_RESULTS:
            raise ExchangeError(
                f"{path}: line {number}: it is larger than {LONGEST_FILE >> 20} MiB, {MOST_RESULTS}"
                f" results or {MOST_SEPARATORS} values; export fewer results at a time; nothing was"
                " imported"
            )
        if not text.strip():
            continue
        result = _read_line(path, number, text)
        first = numbers.setdefault(result.record.id, len(results))
        if first < len(results) and not has_same_content(results[first], result):
            raise ExchangeError(
                f"{path}: line {number}: {result.record.id} occurs twice with different content; "
                "nothing was imported"
            )
        results.append(result)
    return results


def _parse_json(text: bytes) -> Any:
    if count_separators(text) > MOST_ITEMS:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _check_version(path: Path, name: str, version: object, known: int) -> None:
    if type(version) is not int or version < 1:
        raise ExchangeError(f"{path}: {name} {version!r} is no version; nothing was imported")
    if version > known:
        raise ExchangeError(
            f"{path}: {name} {version}, and this program knows {known}; install the newer"
            " gpu-workbench"
        )


def _read_line(path: Path, number: int, text: bytes) -> StoredResult:
    try:
        line = wire.from_plain(_ResultLine, parse_finite(text))
        result = StoredResult(line.record, line.facts, line.tags)
        check_result(result)
    except (ImpossibleError, wire.WireError) as error:
        raise ExchangeError(
            f"{path}: line {number} is damaged: {error}; nothing was imported"
        ) from error
    return result


def _parse_run_output(path: Path, whole: dict[str, Any]) -> list[StoredResult]:
    """Return the results in ``run --json`` output that measured something or failed."""
    try:
        environment = wire.from_plain(Environment | None, whole["environment"], "environment")
        results = wire.from_plain(tuple[dict[str, Any], ...], whole["results"], "results")
        runs = [
            (
                wire.from_plain(RunResult, result, f"results[{place}]"),
                wire.from_plain(
                    Conditions | None, result.get("conditions"), f"results[{place}].conditions"
                ),
            )
            for place, result in enumerate(results)
        ]
    except wire.WireError as error:
        raise ExchangeError(f"{path}: {error}; nothing was imported") from error
    # One process measured them all; the file represents that process.
    process = compute_id(runs[0][0], 0.0) if runs else ""
    return [
        _build_result(result, seen, environment, process)
        for result, seen in runs
        if is_storable(result) and result.ended_at is not None
    ]


def _build_result(
    result: RunResult, seen: Conditions | None, environment: Environment | None, process: str
) -> StoredResult:
    facts = collect_output_facts(environment, find_devices(result), result.flags)
    driver = (seen.versions if seen else {}).get("driver")
    if driver is not None and "driver" in facts.unknown:
        unknown = {name: why for name, why in facts.unknown.items() if name != "driver"}
        facts = Facts({**facts.values, "driver": driver}, unknown)
    ended = result.ended_at or 0.0
    return StoredResult(build_record(result, ended, process=process, conditions=seen), facts)
