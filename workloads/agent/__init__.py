"""What is put into a watched process, by a folder in ``PYTHONPATH``. Standard library, Python 3.8.

In the process it is the package ``gpu_workbench_agent``, found by its place: none of this program
is importable there. The names of the variables that it reads, and what it calls its process:
"""

import os

RUN = "GPU_WORKBENCH_RUN"
"""The folder in which it leaves what it has to tell. Without it there is no agent."""
RECORD = "GPU_WORKBENCH_RECORD"
"""Entries of torch's memory history that are kept from the first CUDA call on."""
ENTRIES = 100_000


def identity(pid: object = "self") -> str:
    """Machine, pid and the kernel's start time of a process: no other has the same.

    Raises:
        OSError: there is no such process.
    """
    with open("/proc/%s/stat" % pid, "rb") as file:
        text = file.read()
    number, start = text.split(b" ", 1)[0].decode(), text.rpartition(b") ")[2].split()[19].decode()
    return "%s-%s-%s" % (os.uname().nodename.partition(".")[0][:40], number, start)


MOST_PROGRAMS = 1000
"""That a process executes one after the other and that have a file each."""


def claim_program(run: str, process: str) -> int:
    """Claim this program's number among those that its process executes, by creating its file.

    A process that executes another program keeps its pid and its start.

    Args:
        run: the folder of the run.
        process: its identity.

    Returns:
        1 for the first; also where no file can be made.
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
    """Return the name of one of the programs of a process, which its files begin with."""
    return process if number == 1 else "%s.%d" % (process, number)
