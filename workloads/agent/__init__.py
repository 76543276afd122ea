"""The agent in a watched process, loaded through a folder in ``PYTHONPATH``.

It needs only the standard library of Python 3.8. In the process it is the package
``gpu_workbench_agent``, found by its location: nothing else of this program is importable there.
This module defines the variables that it reads, and its identity of a process:
"""

import os

RUN = "GPU_WORKBENCH_RUN"
"""The folder for the agent's files. Without it no agent starts."""
RECORD = "GPU_WORKBENCH_RECORD"
"""Size of torch's memory history, in entries, from the first CUDA call on."""
REHEARSE = "GPU_WORKBENCH_REHEARSE"
"""Steps after which a rehearsal ends its process; 0 for none."""
FOREACH = "GPU_WORKBENCH_FOREACH"
"""``0``: a rehearsal's optimizers that were not told otherwise update one tensor after another."""
READS = "GPU_WORKBENCH_READS"
"""JSON of the file, the offset and the number of a rehearsal's counters of copies to the host."""
ENTRIES = 100_000
UNSTORED_STATE = "new momentum_buffer"
"""In an inventory: the part of an optimizer's state that its running step has yet to store."""


def identity(pid: object = "self") -> str:
    """Return machine, pid and kernel start time of a process, a unique combination.

    Raises:
        OSError: no such process exists.
    """
    with open("/proc/%s/stat" % pid, "rb") as file:
        text = file.read()
    number, start = text.split(b" ", 1)[0].decode(), text.rpartition(b") ")[2].split()[19].decode()
    return "%s-%s-%s" % (os.uname().nodename.partition(".")[0][:40], number, start)


MOST_PROGRAMS = 1000
"""Programs that a process executes one after the other and that get a file each."""


def claim_program(run: str, process: str) -> int:
    """Claim the next program number of this process by creating its file.

    A process that executes another program keeps its pid and its start time.

    Args:
        run: the run's folder.
        process: the process's identity.

    Returns:
        1 for the first program, and where no file can be created.
    """
    try:
        os.makedirs(run, mode=0o700, exist_ok=True)
        for number in range(1, MOST_PROGRAMS):
            path = os.path.join(run, program_name(process, number) + ".jsonl")
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                continue
            return number
    except OSError:
        return 1
    return MOST_PROGRAMS


def program_name(process: str, number: int) -> str:
    """Return the file name prefix of one of a process's programs."""
    return process if number == 1 else "%s.%d" % (process, number)
