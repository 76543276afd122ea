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
