"""``serve`` a front end or ``list`` the catalogue; ``serve`` starts ``worker`` and ``probe``.

``meet`` finds where this host can meet others, for the ranks of a run over several hosts.
A worker starts ``torchrun``, which starts a ``rank`` for each process, and ``captures``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

from workloads import ENTRY
from workloads.declare import user_workloads
from workloads.measure.malloc import fix_thresholds
from workloads.protocol import guard, process, wire
from workloads.protocol.process import Channel
from workloads.ranks.torchrun import VARIABLE, Order, RanksFolder, end_on_hangup

USAGE = "usage: workloads serve | list [--workloads FILE]… | meet"

# Each mode has its own imports: torch takes seconds, and the catalogue some time too.


def _rank() -> int:
    """Run the rank that torchrun's environment names, and return the exit code."""
    folder = RanksFolder(Path(os.environ[VARIABLE]))
    local_rank = int(os.environ["LOCAL_RANK"])
    process.die_with_parent(os.getppid(), signal.SIGKILL)
    output = os.open(folder.output(local_rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    end_on_hangup(folder)
    channel = Channel(-1, os.open(folder.events(local_rank), os.O_WRONLY), ())
    order = wire.decode(folder.order.read_bytes(), (Order,))
    fix_thresholds()
    # torch warns at import where NumPy is not installed; nothing here needs it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    from workloads.runner import rank

    return 0 if rank.run(order, channel, folder) else 1


def main() -> int:
    """Run the mode named on the command line, and return the exit code."""
    silence_s, arguments = _keep_alive_in(sys.argv[2:])
    files, left = user_workloads.files_in(arguments)
    mode = sys.argv[1] if len(sys.argv) > 1 and not left else ""
    if sys.argv[1:2] == ["torchrun"] and len(sys.argv) > 2:
        return _torchrun(int(sys.argv[2]), sys.argv[3:])
    if sys.argv[1:2] == ["captures"] and len(sys.argv) == 4:
        from workloads.catalog.flags import captures

        return captures.main(int(sys.argv[2]), sys.argv[3])
    if mode == "rank":
        return _rank()
    if mode == "list":
        return _list(files)
    if mode == "meet":
        from workloads.ranks import meeting

        return meeting.main()
    if mode not in ("serve", "worker", "probe"):
        print(USAGE, file=sys.stderr)  # noqa: T201 (a command's own output)
        return 2
    reading, writing = process.separate_protocol()
    if mode == "serve":
        if silence_s is not None:
            reading = guard.read_through_guard(reading, writing, silence_s)
        process.die_with_parent(os.getppid(), signal.SIGTERM)
        from workloads.runner.serve import serve

        return serve(reading, writing, files)
    # The parent uses this environment too, and stores the C heap's settings.
    malloc = fix_thresholds()
    process.die_with_parent(os.getppid(), signal.SIGKILL)
    if mode == "worker":
        from workloads.runner.worker import work

        # The parent has already reported the files' problems.
        user_workloads.load(files)
        work(reading, writing)
    else:
        from workloads.measure.environment import probe

        probe(writing, malloc)
    return 0


def _keep_alive_in(arguments: list[str]) -> tuple[float | None, list[str]]:
    """Return the seconds that ``--keep-alive S`` names, and the remaining arguments."""
    if arguments[:1] == ["--keep-alive"] and len(arguments) > 1:
        return float(arguments[1]), arguments[2:]
    return None, arguments


def _torchrun(worker: int, arguments: list[str]) -> int:
    """Become torchrun, which then ends with the worker that started it."""
    process.die_with_parent(worker, signal.SIGKILL)
    # Not with ``-m``, which would prefer a module in the current folder.
    os.execv(sys.executable, [sys.executable, ENTRY, "torch.distributed.run", *arguments])


def _list(files: list[str]) -> int:
    from workloads import catalog
    from workloads.declare import workload

    assert catalog
    problems = user_workloads.load(files)
    infos = wire.to_plain(workload.infos_with_code())
    print(json.dumps(infos))  # noqa: T201 (a command's own output)
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201 (a command's own output)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
