"""What became of a run, as text, Markdown or one object: its end, its OOMs and their causes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tui.cli.errors import Failure
from tui.cli.kept_runs import end_in_words
from tui.cli.reader import reading
from tui.cli.streams import say
from tui.cli.watch_output import as_plain
from tui.cli.watched_run import Outcome
from tui.snapshots.reader.messages import Export, Load
from tui.text import numbers as text
from tui.watch.findings import NO_GROWTH
from tui.watch.kept import Left, Oom, troubles_in

MOST_VERDICTS = 3
"""Processes whose verdict is printed: ranks run out for the same reason."""
TOP = 10
_OOM = ("at", "step", "device", "asked", "free", "handled", "text", "text_source")


def told_ooms(left: Sequence[Left]) -> list[tuple[Left, Oom]]:
    """The newest OOM of each process, those first that ended one or may have."""
    found = [(each, each.ooms[-1]) for each in left if each.ooms]
    return sorted(found, key=lambda pair: (pair[1].handled is True, pair[1].at))


# ---- text ----


async def as_text(outcome: Outcome) -> list[str]:
    """Lines that follow the run's own output."""
    left = outcome.left
    lines = ["", end_in_words(outcome.run)]
    for each in left:
        lines.append(process_line(each))
        lines += [f"  the agent could not {trouble}" for trouble in each.troubles]
    lines += [f"no agent in process {trouble}" for trouble in troubles_in(outcome.run.folder)]
    lines += [
        f"{pid} {device}: {found.text} ({found.source})"
        for pid, device, track in outcome.tracks
        for found in track.findings()
    ]
    told = told_ooms(left)
    for each, oom in told[:MOST_VERDICTS]:
        lines += ["", *oom_lines(each, oom)]
        if oom.snapshot is not None:
            lines += ["", *(await _verdict(oom.snapshot, oom.text, markdown=False))]
    lines += [f"{each.pid}: {oom.snapshot}" for each, oom in told[MOST_VERDICTS:] if oom.snapshot]
    if told and not any(each.records for each, _ in told):
        lines.append(
            "who held the memory, by file and line, is told where torch's memory history is kept: "
            "run it with --record"
        )
    if not left:
        lines.append("no process of it has used CUDA, or none with the agent")
    return lines


async def as_markdown(outcome: Outcome) -> list[str]:
    """The same for an issue: the newest OOM that ended something, and its report."""
    left = outcome.left
    lines = [f"`{' '.join(outcome.run.command)}`", "", end_in_words(outcome.run), ""]
    lines += [f"- {process_line(each)}" for each in left]
    for each, oom in told_ooms(left)[:1]:
        lines += ["", *oom_lines(each, oom), ""]
        if oom.snapshot is not None:
            lines += await _verdict(oom.snapshot, oom.text, markdown=True)
    return lines


def process_line(left: Left) -> str:
    """One process: its steps, its OOMs, how it ended."""
    rank = "" if left.rank is None else f" rank {left.rank}"
    steps = "steps not known" if left.steps is None else text.count(left.steps, "step")
    ooms = text.count(left.oom_count, "OOM")
    end = "" if left.ended else "; it was killed, left by os._exit, or goes on"
    if left.kind:
        end = f"; ended by {left.kind}"
    return f"process {left.pid}{rank}: {steps}, {ooms}{end}"


def oom_lines(left: Left, oom: Oom) -> list[str]:
    """One OOM by the numbers of the observer, and the exception's text with its source."""
    rank = "" if left.rank is None else f", rank {left.rank}"
    went_on = {True: "the program went on", False: "it ended the process", None: oom.why_not_known}
    where = f" at {oom.where}" if oom.where else ""
    lines = [
        f"OOM {oom.number} of {left.oom_count} in process {left.pid}{rank}, at step {oom.step}: "
        f"{text.size(oom.asked)} asked on cuda:{oom.device}{where}, {text.size(oom.free)} free of "
        f"{text.size(oom.limit)}, {text.size(oom.allocated)} live; {went_on[oom.handled]}",
        oom.text,
        f"  (text: {oom.text_source})",
    ]
    if oom.snapshot is not None:
        lines.append(f"snapshot: {oom.snapshot}")
    else:
        lines.append(f"no snapshot: {oom.why_no_snapshot}")
    return lines


async def _verdict(snapshot: Path, oom_text: str, *, markdown: bool) -> list[str]:
    """What the reader makes of a snapshot; where it cannot, why."""
    path = str(snapshot)
    try:
        async with reading((path,)) as child:
            child.load(Load(0, (path,), oom_text=oom_text, top=TOP))
            # The door to the views, which are imported while the reader reads.
            from tui.cli import snapshot_text
            from tui.ui.views.snapshot.overview import progress_words

            loaded = await child.loaded(progress_words)
            if markdown:
                told = await child.export(Export(0, "markdown", top=TOP))
            else:
                told = await snapshot_text.as_text(
                    child, loaded, event=None, top=TOP, at_peak=False, compares=False
                )
            return told.rstrip("\n").split("\n")
    except Failure as failure:
        say(str(failure))
        return [f"{path} cannot be read: {failure}"]


# ---- plain data ----


def as_object(outcome: Outcome) -> dict[str, Any]:
    """As ``watch --json`` has it of a process, with the command, its end, steps and OOMs."""
    run = outcome.run
    plain = as_plain(outcome.rows)
    unavailable: dict[str, str] = plain["unavailable"]
    processes: list[dict[str, Any]] = plain["processes"]
    left = {each.pid: each for each in outcome.left}
    by_pid = {each["pid"]: each for each in processes}
    for pid, each in left.items():
        if pid not in by_pid:
            by_pid[pid] = _not_sampled(each, outcome, unavailable)
            processes.append(by_pid[pid])
    for pid, process in by_pid.items():
        _add_what_is_left(process, left.get(pid), unavailable)
        process["growth"] = _growth(pid, outcome, unavailable)
    if run.code is None:
        unavailable["exit.code"] = "it was ended by a signal"
    if run.signal is None:
        unavailable["exit.signal"] = "no signal has ended it"
    return {
        **plain,
        "command": list(run.command),
        "folder": str(run.folder),
        "exit": {"code": run.code, "signal": run.signal},
        "unavailable": unavailable,
    }


def _not_sampled(left: Left, outcome: Outcome, unavailable: dict[str, str]) -> dict[str, Any]:
    why = outcome.why_no_samples or "it had ended before it was seen"
    path = f"processes.{left.pid}"
    unavailable |= {path: why, f"{path}.user": why, f"{path}.command": why, f"{path}.start": why}
    rank = int(left.rank) if left.rank is not None and left.rank.isdecimal() else None
    if rank is None:
        unavailable[f"{path}.rank"] = "no launcher has told it in the environment"
    named = {"pid": left.pid, "start": None, "command": None, "user": None}
    return {**named, "rank": rank, "torch": left.torch, "sources": [], "devices": []}


def _add_what_is_left(
    process: dict[str, Any], left: Left | None, unavailable: dict[str, str]
) -> None:
    path = f"processes.{process['pid']}"
    if left is None:
        process |= {"steps": None, "ooms": None}
        why = "no agent in it: it has not used CUDA, or its environment was not handed on"
        unavailable |= {f"{path}.steps": why, f"{path}.ooms": why}
        return
    process["sources"].append("agent")
    process["steps"] = left.steps
    if left.steps is None:
        unavailable[f"{path}.steps"] = "it was killed, or left by os._exit"
    process["ooms"] = [
        {name: getattr(oom, name) for name in _OOM}
        | {"snapshot": None if oom.snapshot is None else str(oom.snapshot)}
        for oom in left.ooms
    ]
    for number, oom in enumerate(left.ooms):
        if oom.handled is None:
            unavailable[f"{path}.ooms.{number}.handled"] = oom.why_not_known
        if oom.snapshot is None:
            unavailable[f"{path}.ooms.{number}.snapshot"] = oom.why_no_snapshot


def _growth(
    pid: int, outcome: Outcome, unavailable: dict[str, str]
) -> dict[str, dict[str, float | str]] | None:
    """Bytes a step or a second, and the bounds of its 95 % interval, by device."""
    found: dict[str, dict[str, float | str]] = {}
    for of, device, track in outcome.tracks:
        grows = track.growth()
        if of == pid and grows is not None:
            rates = {"rate": grows.rate, "low": grows.low, "high": grows.high}
            found[device] = {**rates, "per": track.growth_per}
    if not found:
        unavailable[f"processes.{pid}.growth"] = NO_GROWTH
    return found or None
