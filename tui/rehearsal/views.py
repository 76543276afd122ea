"""A rehearsal as text: the answer, the account of the peak, and the limits of the method."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui.core.text import numbers as fmt
from tui.rehearsal.changes import find_batch
from tui.rehearsal.libraries import TargetLibraries, find_differences, library_line
from tui.rehearsal.read_uses import ReadUse, reads_with
from tui.rehearsal.run import ProcessPeak, Rehearsed
from tui.rehearsal.search import Search
from tui.rehearsal.verdict import DeviceVerdict, RehearsalVerdict
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.results import Site
from tui.watch.cli.ooms import explanation_lines
from tui.watch.runs.agent_events import HostRead
from tui.watch.runs.log_texts import source_line

LIMITS = (
    "Nothing is computed: values read back are zeros."
    " Requested bytes are exact for this torch; reserved bytes on the card may differ by"
)
MOST_READS = 3
CONTEXT, NCCL = "context", "NCCL buffers"
LEAST_SHOWN = 1 << 20
"""Bytes from which on a term of the account is shown."""
LARGE_HOST = 4 << 30
"""Host memory from which on it is mentioned."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rehearsal of a changed program, made because the program as it is does not fit."""

    label: str
    """The change, such as ``expandable segments``."""
    verdict: RehearsalVerdict


def rehearsal_lines(
    rehearsed: Rehearsed,
    verdict: RehearsalVerdict,
    attempts: Sequence[Attempt],
    cells: int,
    target: TargetLibraries | None = None,
) -> list[str]:
    """Return one rehearsal as lines, the answer first.

    Args:
        rehearsed: the measurements.
        verdict: the conclusion from them.
        attempts: rehearsals of changed programs.
        cells: width of a line.
        target: the libraries that the program is to have; ``None`` if they are not known.
    """
    lines = _wrap(answer_line(rehearsed, verdict), cells)
    lines += _wrap_all(_doubts(verdict, target), cells, "  ")  # next to the answer
    lines += attempt_lines(attempts, cells)
    lines += _peak_lines(rehearsed, verdict, cells)
    lines += _wrap_all(rehearsed.problems, cells, "  ")
    if verdict.answer == "failed":
        lines += _wrap_all(failure_limits(verdict), cells)
        return [*lines, f"its output is in {rehearsed.run.log}"]
    if verdict.devices:
        lines += ["", *_wrap_all(limit_lines(rehearsed, verdict, target), cells)]
    if verdict.answer in ("fits", "close", "does not fit"):
        lines += _wrap(largest_batch_line(rehearsed), cells)
    lines.append(f"gpu-workbench watch {rehearsed.run.folder.name} shows its memory")
    return lines


def _wrap(text: str, cells: int, indent: str = "") -> list[str]:
    """Return a text as lines, all but the first indented by two more; options are not broken."""
    return textwrap.wrap(
        text,
        cells,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )


def _wrap_all(texts: Iterable[str], cells: int, indent: str = "") -> list[str]:
    return [row for text in texts for row in _wrap(text, cells, indent)]


def failure_limits(verdict: RehearsalVerdict) -> list[str]:
    """Return whether a program that used the device may have failed because it is simulated."""
    if not verdict.devices:
        return []
    if verdict.reads:
        reason = f"it read values of the device, which are zeros here, at {_places(verdict.reads)}"
    elif verdict.copies:
        reason = f"it read values of the device, which are zeros here, {verdict.copies} times"
    else:
        return [
            "It had read no device values. On a real card it may not fail if it measures times or "
            "calls functions that are not simulated."
        ]
    return [f"On a real card it may not fail: {reason}."]


def _doubts(verdict: RehearsalVerdict, target: TargetLibraries | None) -> list[str]:
    """Return what may make the answer another one: other libraries, a branch on data."""
    doubts = []
    if target is not None and find_differences(verdict.libraries, target):
        doubts.append(library_line(verdict.libraries, target))
    guards = reads_with(ReadUse.GUARD, verdict.reads)
    branches = reads_with(ReadUse.BRANCH, verdict.reads)
    if branches:
        doubts.append(
            f"depends on data: it branches at {_places(branches)} on values that are zeros here"
        )
    if guards:
        doubts.append(
            f"NaN guard: isfinite reads false at {_places(guards)}; its branch may not have run"
        )
    return doubts


def _peak_lines(rehearsed: Rehearsed, verdict: RehearsalVerdict, cells: int) -> list[str]:
    """Return the account of the peak, or of the error that the memory ran out with."""
    if verdict.answer == "failed":
        return []
    if verdict.answer == "does not fit":
        return [
            row
            for _, explanation in rehearsed.ooms[:1]
            for row in explanation_lines(explanation, cells)
        ]
    caught = _find_caught(rehearsed, verdict)
    if caught is not None:
        return [*_wrap(_caught_line(caught), cells, "  "), *explanation_lines(caught, cells)]
    devices = sorted(verdict.devices, key=lambda device: device.index)
    return [row for device in devices for row in _device_lines(rehearsed, device, cells)]


def _find_caught(rehearsed: Rehearsed, verdict: RehearsalVerdict) -> Explanation | None:
    """Return the explanation of the OOM that the program caught and may have ended by, if any."""
    if verdict.answer != "unknown":
        return None
    for log, explanation in rehearsed.ooms:
        if log.ooms and log.ooms[-1].handled is None:
            return explanation
    return None


def _caught_line(caught: Explanation) -> str:
    return f"it caught: {caught.line}"


def conclusion_paragraphs(rehearsed: Rehearsed, verdict: RehearsalVerdict) -> list[str]:
    """Return the verdict for the page of its run, a paragraph each, the answer first."""
    paragraphs = [answer_line(rehearsed, verdict), *_doubts(verdict, None)]
    caught = _find_caught(rehearsed, verdict)
    if caught is not None:
        paragraphs.append(_caught_line(caught))
    if verdict.answer in ("fits", "close"):
        for device in sorted(verdict.devices, key=lambda device: device.index):
            place = [f"{place_line(peak)}." for peak in device.peaks[:1]]
            terms = " ".join(account_rows(device, 1 << 30))
            name = [f"cuda:{device.index}"] if rehearsed.rehearsal.gpus > 1 else []
            paragraphs.append(" ".join([*name, *place, f"The peak is {terms}"]))
    if verdict.answer == "failed":
        return [*paragraphs, *failure_limits(verdict)]
    return [*paragraphs, *rehearsed.problems, limit_lines(rehearsed, verdict)[0]]


def largest_batch_line(rehearsed: Rehearsed) -> str:
    """Return how to find the largest batch, which takes several rehearsals."""
    option = find_batch(rehearsed.rehearsal.command)
    if option is None:
        return (
            "Largest batch: not searched; put {batch} into the command, and add "
            "--find batch=1..1024"
        )
    return f"Largest batch: not searched; add --find, which varies {option.name}"


def answer_line(rehearsed: Rehearsed, verdict: RehearsalVerdict) -> str:
    """Return the answer in one line."""
    card = rehearsed.rehearsal.card.name
    fullest = verdict.fullest
    if verdict.answer == "failed":
        return f"the program failed by itself: {verdict.reason}"
    if verdict.answer == "unknown" or fullest is None:
        return f"unknown whether it fits on {card}: {verdict.reason}"
    if verdict.answer == "does not fit":
        return f"does not fit on {card}: {verdict.reason}"
    figures = f"peak {fullest.peak_of_total}, headroom {fmt.size(fullest.headroom)}"
    if verdict.answer == "close":
        return f"may not fit on {card}: {figures}; {verdict.reason}"
    return f"fits on {card}: {figures}" + (f"; {verdict.reason}" if verdict.reason else "")


def _device_lines(rehearsed: Rehearsed, device: DeviceVerdict, cells: int) -> list[str]:
    lines = []
    if rehearsed.rehearsal.gpus > 1:
        lines.append(f"cuda:{device.index}  peak {device.peak_of_total}")
    lines += _wrap_all((place_line(peak) for peak in device.peaks[:1]), cells, "  ")
    return [*lines, *(f"  {row}" for row in account_rows(device, cells))]


def place_line(peak: ProcessPeak) -> str:
    """Return when and where a process's memory was at its peak."""
    rank = "" if peak.rank is None else f"rank {peak.rank}, "
    step = "" if peak.step is None else f"step {peak.step}, "
    account = peak.account
    if account.site.kind == "user" and account.site.frame is not None:
        where = _line(account.site)
    elif account.after is not None:
        # torch runs the backward pass in threads of its own.
        where = f"in the backward pass, after {_line(account.after)}"
    else:
        where = account.site.label
    return f"at {rank}{step}{where}"


def _line(site: Site) -> str:
    """Return a line of the program with its code, if its file can be read."""
    code = "" if site.frame is None else source_line(site.frame.filename, site.frame.line)
    return f"{site.label}: {code}" if code else site.label


def account_rows(device: DeviceVerdict, cells: int) -> list[str]:
    """Return the account of a device's memory at the peak; the terms add up to the peak used."""
    terms = [
        f"{name} {fmt.size(size)}" + (" (assumed)" if name in (CONTEXT, NCCL) else "")
        for name, size in account_terms(device)
        if size >= LEAST_SHOWN
    ]
    rows: list[str] = []
    for place, term in enumerate(terms):
        text = f"+ {term}" if place else term
        if rows and len(rows[-1]) + 1 + len(text) <= cells - 2:
            rows[-1] += f" {text}"
        else:
            rows.append(text)
    return rows


def account_terms(device: DeviceVerdict) -> list[tuple[str, int]]:
    """Return the terms of a device's memory at the peak, with their bytes.

    The terms of torch are those at the peak of requested bytes; memory reserved beyond them, then
    or at another time, is cached.
    """
    roles: dict[str, int] = {}
    requested = rounding = reserved = 0
    for peak in device.peaks:
        for role in peak.account.roles:
            roles[role.role] = roles.get(role.role, 0) + role.bytes
        requested += peak.account.live
        rounding += peak.account.rounding
        reserved += peak.account.reserved_peak
    return [
        *roles.items(),
        ("rounding", rounding),
        ("cached", max(0, reserved - requested - rounding)),
        ("outside torch", max(0, device.record.allocated - reserved)),
        (NCCL, device.record.nccl),
        (CONTEXT, device.contexts),
    ]


def attempt_lines(attempts: Sequence[Attempt], cells: int) -> list[str]:
    """Return a line for each change that was tried.

    Args:
        attempts: rehearsals of the changed program.
        cells: width of a line.
    """
    lines = []
    for attempt in attempts:
        answer, peak = _short_answer(attempt.verdict)
        if peak:
            answer += f", peak {peak}"
        elif attempt.verdict.answer == "does not fit":
            answer += " either"
        lines.append(f"with {attempt.label}: {answer}")
    return _wrap_all(lines, cells, "  ")


def _short_answer(verdict: RehearsalVerdict) -> tuple[str, str]:
    """Return the answer in a few words, and the peak if the program ran to it, else nothing."""
    fullest = verdict.fullest
    if verdict.answer == "does not fit":
        return verdict.answer, ""
    if verdict.answer in ("fits", "close") and fullest is not None:
        return "fits" if verdict.answer == "fits" else "may not fit", fullest.peak_of_total
    return f"{verdict.answer}: {verdict.reason}", ""


def _places(reads: Sequence[HostRead]) -> str:
    """Return the first lines of some, such as ``train.py:57 and 2 other lines``."""
    places = [f"{read.filename.rpartition('/')[2]}:{read.line}" for read in reads[:MOST_READS]]
    more = len(reads) - len(places)
    return ", ".join(places) + (f" and {fmt.count(more, 'other line')}" if more else "")


def limit_lines(
    rehearsed: Rehearsed, verdict: RehearsalVerdict, target: TargetLibraries | None = None
) -> list[str]:
    """Return the limits of the rehearsal's knowledge, a line each."""
    margin = verdict.margin
    lines = [f"{LIMITS} {100 * margin.share:.0f}% ({margin.reason})."]
    others = reads_with(ReadUse.OTHER, verdict.reads)
    printed = reads_with(ReadUse.PRINT, verdict.reads)
    if others:
        lines.append(f"Depends on data if it branches on what it reads: {_places(others)}.")
    if printed:
        lines.append(f"Values that it only prints are zeros here: {_places(printed)}.")
    if verdict.copies and not verdict.reads:
        copies = fmt.count(verdict.copies, "copy", "copies")
        lines.append(f"Depends on data if it branches on it: {copies} to the host, lines unknown.")
    if verdict.steps is None and not verdict.stopped and verdict.answer != "does not fit":
        lines.append("It has made no optimizer step: a training would need more.")
    if rehearsed.host_peak > LARGE_HOST:
        lines.append(
            f"It used up to {fmt.size(rehearsed.host_peak)} of host memory (sampled): what a "
            "program builds on the CPU takes that here too."
        )
    libraries = library_line(verdict.libraries, target)
    if libraries and not (target and find_differences(verdict.libraries, target)):
        lines.append(libraries)
    return lines


@dataclass(frozen=True, slots=True)
class SearchWith:
    """A search for the largest value with a setting that saves memory."""

    label: str
    """The setting, such as ``expandable segments``."""
    search: Search
    tried: int
    """Number of rehearsals."""
    problem: str = ""
    """Why the search was not finished; empty if it was."""


def search_lines(
    search: Search, label: str, name: str, tried: int, last: RehearsalVerdict | None, cells: int
) -> list[str]:
    """Return the result of a search, the answer first.

    Args:
        search: the finished search.
        label: the varied option, such as ``--batch``.
        name: name of the card.
        tried: number of rehearsals.
        last: the verdict on the largest value that fits.
        cells: width of a line.
    """
    rehearsals = fmt.count(tried, "rehearsal")
    if search.fits is None:
        if search.is_close:
            text = f"{label}={search.fails} may not fit on {name}, and it is the lowest"
            return _wrap(f"{text} ({rehearsals})", cells)
        lines = _wrap(f"not even {label}={search.fails} fits on {name} ({rehearsals})", cells)
        return [
            *lines,
            *_wrap(f"a rehearsal of {label}={search.fails} alone says what it needs", cells, "  "),
        ]
    lines = _wrap(f"largest {label} on {name}: {_limit(search)}", cells)
    if last is None or last.fullest is None:
        return [*lines, f"  {rehearsals}"]
    return [*lines, f"  with {search.fits}: peak {last.fullest.peak_of_total}; {rehearsals}"]


def _limit(search: Search) -> str:
    """Return the largest value that fits, and how that is known."""
    if search.fits is None:
        return "none"
    if search.fits == search.range.high:
        return f"{search.fits} (the end of the range)"
    return f"{search.fits} ({search.fails} {'may' if search.is_close else 'does'} not fit)"


def setting_lines(others: Sequence[SearchWith], cells: int) -> list[str]:
    """Return a line for each setting with which the search was repeated.

    Args:
        others: the searches.
        cells: width of a line.
    """
    lines = []
    for other in others:
        result = f"unknown: {other.problem}" if other.problem else _limit(other.search)
        lines.append(f"with {other.label}: {result}; {fmt.count(other.tried, 'rehearsal')}")
    return _wrap_all(lines, cells, "  ")


def card_lines(rows: Sequence[tuple[str, RehearsalVerdict]], cells: int) -> list[str]:
    """Return a table of cards: those on which the program fits, with their headroom."""
    fitting = [name for name, verdict in rows if verdict.answer == "fits"]
    if fitting:
        answer = f"fits on {fmt.count(len(fitting), 'card')} of {len(rows)}: {', '.join(fitting)}"
    else:
        answer = f"fits on none of {fmt.count(len(rows), 'card')}"
    wide = max(len(name) for name, _ in rows)
    lines = [*_wrap(answer, cells), ""]
    for name, verdict in rows:
        short, peak = _short_answer(verdict)
        lines.append(f"{name:<{wide}}  " + (f"{short:<12}  {peak}" if peak else short))
    return lines
