"""``watch RUN --stacks``: prints the current stack of each rank of a run."""

from __future__ import annotations

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.output import WIDTH, UsageError, print_json, print_text
from tui.kit.lines import plain
from tui.watch.runs import runs
from tui.watch.runs.rank_stacks import describe_missing_ranks, read_rank_stacks
from tui.watch.runs.runs import StartedRun
from tui.watch.views.rank_stacks import rank_stack_lines


def print_stacks(name: str, *, as_json: bool) -> int:
    """Print the stacks of a run's processes.

    Args:
        name: name of its folder or a unique prefix; empty for the newest running run.
        as_json: print one object instead of lines.

    Returns:
        The exit code: 1 without a running process, or if a process does not answer.

    Raises:
        UsageError: there is no such run.
    """
    run = _run(name)
    ranks = read_rank_stacks(run.folder) if run.is_of_this_machine else ()
    why = "" if ranks else describe_missing_ranks(run)
    if as_json:
        unavailable = {f"processes.{rank.pid}": rank.why_none for rank in ranks if rank.why_none}
        if why:
            unavailable["processes"] = why
        report = {"folder": str(run.folder), "processes": ranks, "unavailable": unavailable}
        print_json(report)
    else:
        lines = rank_stack_lines(ranks, why, WIDTH)
        print_text(rows_of_text(plain(line).rstrip() for line in lines))
    return 0 if ranks and all(rank.stacks is not None for rank in ranks) else 1


def _run(name: str) -> StartedRun:
    try:
        if name:
            return runs.find_run(name)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from error
    running = next((run for run in runs.stored_runs() if run.is_running), None)
    if running is None:
        raise UsageError("--stacks: no run is active; gpu-workbench watch lists the stored runs")
    return running
