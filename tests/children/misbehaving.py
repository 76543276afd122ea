"""The real runner with small budgets and workloads that misbehave; started like the package."""

from __future__ import annotations

import ctypes
import os
import random
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])

from tests.catalog.brief import measure_briefly  # noqa: E402 (once the path is right)
from workloads import catalog  # noqa: E402 (it comes first, as where users bring their own)
from workloads.__main__ import main  # noqa: E402
from workloads.declare.study import Study  # noqa: E402
from workloads.declare.workload import Case, workload  # noqa: E402
from workloads.protocol.results import Check  # noqa: E402

assert catalog

PR_SET_NAME = 15
"""``linux/prctl.h``"""


def _declare(name: str, timed: object) -> None:
    def prepare(_place: object) -> Case:
        def timed() -> object:
            return behaviour()

        return Case(timed, clock="wall")

    assert callable(timed)
    behaviour = timed
    prepare.__name__ = name
    workload(group="misbehaving", title=name, about="[/x]", look_for="[cuda:0]")(prepare)


def _print() -> None:
    """Write to stdout in every way there is."""
    print("printed")
    os.write(1, b"written to fd 1\n")
    ctypes.CDLL(None).puts(b"put by C")
    os.system("echo said by a child")


def _raise() -> None:
    raise RuntimeError("aten::conv[NHWC] [/x] went wrong\nsecond line")


def _hold_the_gil() -> None:
    """Block every other thread from the moment this one gets the name below."""
    sys.setswitchinterval(600)
    libc = ctypes.PyDLL(None)
    libc.prctl(PR_SET_NAME, b"holds the GIL", 0, 0, 0)
    libc.sleep(600)


def _garbage() -> None:
    """Write to every open pipe, the protocol's included."""
    for link in list(Path("/proc/self/fd").iterdir()):
        try:
            if int(link.name) > 2 and str(link.readlink()).startswith("pipe:"):
                os.write(int(link.name), b"\x00garbage {]\n")
        except OSError:
            # Closed since the listing, or open for reading only.
            continue


def _flood_stderr() -> None:
    os.write(2, b"x" * 1_000_000 + b"\n")


def _leave_a_child() -> None:
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "600"])
    time.sleep(600)


def _leave_loaders() -> None:
    """Hang, with child processes of a data loader and of another program alive."""
    from torch.utils.data import DataLoader

    data: list[int] = list(range(1000))
    rows = iter(DataLoader(data, num_workers=2, persistent_workers=True))  # type: ignore[arg-type]
    next(rows)
    _leave_a_child()


def _rest() -> None:
    """Use no CPU, and vary in duration: no estimate ever reaches the target."""
    time.sleep(random.uniform(0.001, 0.01))


_declare("prints", _print)
_declare("rests", _rest)
_declare("leaves_loaders", _leave_loaders)
_declare("raises", _raise)
_declare("segfaults", lambda: ctypes.string_at(0))
_declare("aborts", os.abort)
_declare("holds_the_gil", _hold_the_gil)
_declare("garbage", _garbage)
_declare("floods_stderr", _flood_stderr)
_declare("leaves_a_child", _leave_a_child)
_declare("exits", lambda: os._exit(3))
_declare("calls_sys_exit", lambda: sys.exit(3))
_declare("exits_with_words", lambda: sys.exit("no such data set\nsecond line"))
_declare("exits_well", sys.exit)


@workload(group="misbehaving", title="loses the device", about="a.", look_for="l.")
def loses_the_device(_on: object) -> Case:
    """Fail as torch does after a device-side assert; the process becomes unusable."""

    def timed() -> object:
        raise RuntimeError("CUDA error: device-side assert triggered")

    return Case(timed)


@workload(group="misbehaving", title="runs out of memory", about="a.", look_for="l.")
def runs_out_of_memory(_on: object) -> Case:
    """Fail as torch does when its allocator gets no more memory; the process stays usable."""

    def timed() -> object:
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    return Case(timed)


@workload(group="misbehaving", title="reads where nothing is", about="a.", look_for="l.")
def reads_where_nothing_is(_on: object) -> Case:
    """Fail as torch does after an illegal memory access."""

    def timed() -> object:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    return Case(timed)


@workload(group="misbehaving", title="not a number", about="a.", look_for="l.")
def not_a_number(_on: object) -> Case:
    """Return a result that a check finds to be NaN."""

    def timed() -> object:
        return None

    def check() -> Check:
        return Check(False, float("nan"), 1e-4, "[/x]")

    return Case(timed, clock="wall", check=check)


@workload(group="misbehaving", title="a figure that cannot travel", about="a.", look_for="l.")
def tells_a_tensor(_on: object) -> Case:
    """Report a figure that is a tensor, not a number."""

    def timed() -> object:
        return None

    def study(found: Study) -> None:
        import torch

        found.figure("loss", torch.zeros(1))  # type: ignore[arg-type]

    return Case(timed, clock="wall", study=study)


@workload(group="misbehaving", title="a check that fails", about="a.", look_for="l.")
def check_raises(_on: object) -> Case:
    """Raise an exception after the timing."""

    def timed() -> object:
        return None

    def check() -> Check:
        raise MemoryError

    return Case(timed, clock="wall", check=check)


@workload(group="misbehaving", title="a check that takes long", about="a.", look_for="l.")
def check_takes_long(_on: object) -> Case:
    """Receive a cancel during the check of the result."""

    def timed() -> object:
        return None

    def check() -> Check:
        ctypes.PyDLL(None).sleep(600)
        return Check(True, 0.0, 1e-4, "nothing")

    return Case(timed, clock="wall", check=check)


if __name__ == "__main__":
    measure_briefly()
    sys.exit(main())
