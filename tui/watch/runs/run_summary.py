"""A run in words: its command and its end, for the screen, commands, and after the screen."""

from __future__ import annotations

import shlex
import signal

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import clean
from tui.watch.runs import start
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import LastSign, StartedRun


def format_command(run: StartedRun) -> str:
    """Return the command as the user types it, or the reason that it is unknown."""
    if run.problem:
        return clean(run.problem)
    return clean(shlex.join(run.command)) or "started by hand, with watch --env"


def describe_run_end(run: StartedRun, *, is_running: bool) -> str:
    """Describe the end of a run; a run may also be running, or have an unrecorded end."""
    words = name_run_end(run, is_running=is_running)
    if run.signal is not None:
        return f"ended by {words}"
    return f"ended with {words}" if run.code is not None else words


def name_run_end(run: StartedRun, *, is_running: bool) -> str:
    """Name what :func:`describe_run_end` describes, as for a column: ``exit code 1``."""
    if run.signal is not None:
        return signal_name(run.signal)
    if run.code is not None:
        return f"exit code {run.code}"
    return "running" if is_running else describe_unseen_end(run.last_sign)


def describe_left_run(run: StartedRun) -> str:
    """Return the state of a run that is left, its folder, and how to come back to it."""
    run = start.with_end(run)
    if run.ended is None and run.is_running:
        sentence = f"{name_of(run)} is still running as process {run.pid}; stored in {run.folder}"
    else:
        sentence = describe_finished_run(run)
    return f"{sentence}; gpu-workbench watch {run.folder.name} shows it again"


def describe_finished_run(run: StartedRun) -> str:
    """Describe how a run ended, how long it took, and where it is stored."""
    if run.ended is None:
        return f"{name_of(run)}: {describe_unseen_end(run.last_sign)}; stored in {run.folder}"
    lasted = fmt.duration(run.ended - run.began)
    if run.signal is not None:
        how = f"was ended by {signal_name(run.signal)}"
    elif run.code is None:
        how = "ended with an unknown exit code"
    else:
        how = f"ended with exit code {run.code}"
    return f"{name_of(run)} {how} after {lasted}; stored in {run.folder}"


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number: some, such as threads' own, have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def name_of(run: StartedRun) -> str:
    """Return the first two words of a run's command."""
    return " ".join(run.command[:2]) or "what --env has started"


def describe_unseen_end(sign: LastSign | None) -> str:
    """Describe the end of a run that no program waited for."""
    if sign is None:
        return "end unknown"
    if sign.is_end:
        return "ended; its exit code is known to the shell that started it alone"
    at = fmt.clock(sign.at)
    return f"end unknown; last sign {at}"


def describe_process(log: ProcessLog, ended_by: str = "", *, is_over: bool = False) -> str:
    """Describe one process in a line: its steps, its OOMs, how it ended.

    Args:
        log: the agent's log of the process.
        ended_by: who ended the process, which then wrote no end; empty if unknown.
        is_over: the run has ended, and so has the process.
    """
    rank = "" if log.rank is None else f" rank {log.rank}"
    steps = "steps not known" if log.steps is None else fmt.count(log.steps, "step")
    ooms = f", {fmt.count(log.oom_count, 'OOM')}" if log.oom_count else ""
    end = "; it was killed, called os._exit, or is still running"
    if is_over:
        end = "; it was killed or called os._exit"
    if log.running:
        end = "; it is running"
    if log.ended:
        end = ""
    if ended_by and not log.ended:
        end = f"; ended by {ended_by}"
    if log.replaced:
        end = "; the process executed another program then"
    if log.kind:
        end = f"; ended by {log.kind}"
    program = f", program {log.program}" if log.replaced or log.program > 1 else ""
    return f"process {log.pid}{rank}{program}: {steps}{ooms}{end}"


def describe_oom_kills(run: StartedRun) -> str:
    """Return a line about processes that the kernel's OOM killer ended; empty for none."""
    if not run.oom_kills:
        return ""
    killed = run.signal == signal.SIGKILL or run.code == 128 + signal.SIGKILL
    count = "1 process" if run.oom_kills == 1 else f"{run.oom_kills} processes"
    whom = "the run" if killed and run.oom_kills == 1 else f"{count} of the run's cgroup"
    return (
        f"the kernel's OOM killer ended {whom}: host memory, not the GPU's; fewer loader workers, "
        "less data on the CPU, or a higher memory limit of the container or job"
    )
