"""Find the program's own error, not its launcher's, at the end of its output.

torchrun ends with a report in which lines of ``=`` frame the rank that failed first; that rank's
own error stands before it, among those of ranks that failed because of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

ROOT_CAUSE = "Root Cause (first observed failure):"
"""Heading in torchrun's report: https://github.com/pytorch/pytorch/blob/main/torch/distributed/
elastic/multiprocessing/errors/__init__.py"""
_MOST_REPORT_LINES = 8
_RANK = re.compile(r"\s*rank\s*: (\d+)")
_EXIT = re.compile(r"\s*exitcode\s*: (-?\d+) \(pid: (\d+)\)")
_LAUNCHER = re.compile(r"[IWEF]\d{4} .*torch/distributed/|\[rank\d+\]:\[[IWEF]\d{4} ")
"""Log lines of torchrun, and of torch's process groups."""
_FAILED = re.compile(r"E\d{4} .*failed \(exitcode: ")
_TRACEBACK = "Traceback (most recent call last):"
_PREFIX = re.compile(r"\[(?:rank|default)(\d+)\]:\s?")
"""Before each line of a rank's traceback once its process group exists, or with ``--tee``."""
_OF_LAUNCHERS = ("ChildFailedError", "CalledProcessError")


@dataclass(frozen=True, slots=True)
class PrintedError:
    """The end of a program according to its output."""

    line: str = ""
    """The line with the error; empty if none is known."""
    raised: bool = False
    """True if the line ends a traceback."""
    rank: str | None = None
    """The rank that torchrun reports as the first that failed; ``None`` without such a report."""
    pid: int | None = None
    """That rank's process."""
    code: int | None = None
    """Its exit code; negative for the signal that ended it."""


NOTHING_PRINTED = PrintedError()


def find_error(lines: Sequence[str]) -> PrintedError:
    """Return the error with which a program ended.

    Args:
        lines: the end of its output.
    """
    report = _read_report(lines)
    if report.rank is None:
        errors = _errors(lines)
        last = _last_words(lines)
        if errors and _is_launchers(last):
            own = [line for _, line in errors if not _is_launchers(line)]
            return PrintedError(own[-1], raised=True) if own else PrintedError(last)
        return PrintedError(last)
    failed = [place for place, line in enumerate(lines) if _FAILED.match(line)]
    before = lines[: failed[-1]] if failed else lines[: _find_report(lines)]
    own_lines = [line for line in before if not _LAUNCHER.match(line)]
    by_rank = _errors(own_lines)
    for rank in (report.rank, None):
        of_rank = [line for owner, line in by_rank if owner == rank]
        if of_rank:
            return replace(report, line=of_rank[-1], raised=True)
    if report.code is not None and report.code < 0:
        return report  # earlier lines need not belong to it
    return replace(report, line=_PREFIX.sub("", _last_words(own_lines)))


def _last_words(lines: Sequence[str]) -> str:
    """Return the last line with a letter or a digit; empty without one."""
    return next((line for line in reversed(lines) if re.search(r"\w", line)), "").strip()


def _find_report(lines: Sequence[str]) -> int | None:
    """Return the place of the last report's root cause; ``None`` if there is none."""
    places = [place for place, line in enumerate(lines) if ROOT_CAUSE in line]
    return places[-1] if places else None


def _read_report(lines: Sequence[str]) -> PrintedError:
    """Return rank, process and exit code of the first failure that torchrun reports."""
    place = _find_report(lines)
    rank = pid = code = None
    for line in () if place is None else lines[place : place + _MOST_REPORT_LINES]:
        if rank is None and (match := _RANK.match(line)):
            rank = match[1]
        elif pid is None and (match := _EXIT.match(line)):
            code, pid = int(match[1]), int(match[2])
    return PrintedError(rank=rank, pid=pid, code=code)


def _is_launchers(line: str) -> bool:
    return line.partition(":")[0].rpartition(".")[2] in _OF_LAUNCHERS


def _errors(lines: Sequence[str]) -> list[tuple[str | None, str]]:
    """Return the errors that end tracebacks, each with the rank in its prefix, if it has one."""
    errors: list[tuple[str | None, str]] = []
    within: set[str | None] = set()
    for line in lines:
        prefix = _PREFIX.match(line)
        rank = prefix[1] if prefix else None
        text = line[prefix.end() :] if prefix else line
        if text.startswith(_TRACEBACK):
            within.add(rank)
        elif rank in within and text[:1].strip():
            within.discard(rank)
            errors.append((rank, text.strip()))
    return errors
