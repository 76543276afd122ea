"""The driver's own OOM: who holds the device, without a figure of what was asked for."""

from __future__ import annotations

from tui.snapshots.explain.evidence import Circumstances, Holder
from tui.snapshots.explain.explain import explain_driver_oom
from tui.snapshots.explain.frames import Frame
from tui.watch.state.run import GpuOccupancy, full_gpu

GIB = 2**30
STACK = (
    Frame("/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 964, "_apply"),
    Frame("/home/ada/train.py", 12, "main"),
)
BOB = Holder(4711, 76 * GIB, "bob", "python train.py")


def test_the_first_line_names_the_holder_and_the_user_s_own_line() -> None:
    known = Circumstances(watched=True, holders=(BOB,), total=80 * GIB)
    found = explain_driver_oom(STACK, 3, "main", 0, known)
    assert found.line == (
        "OOM at step 3, train.py:12 in main. The driver had no memory left: "
        "pid 4711 (bob, python train.py) holds 76 GiB of 80 GiB."
    )
    assert found.cause == "other processes"
    assert "pid 4711" in found.advice[0].what
    assert "asked" in found.unavailable


def test_the_account_adds_up_largest_first() -> None:
    small = Holder(5, 2 * GIB)
    known = Circumstances(holders=(small, BOB), process=GIB, total=80 * GIB)
    found = explain_driver_oom(STACK, 0, "main", GIB // 2, known)
    assert [row.bytes for row in found.account][:2] == [76 * GIB, 2 * GIB]
    assert sum(row.bytes for row in found.account) == found.used == 79 * GIB
    assert "pid 5 holds 2 GiB of 80 GiB" in found.conclusion


def test_without_nvml_the_holders_are_unknown_and_not_none() -> None:
    found = explain_driver_oom((), 0, "main", 0, Circumstances())
    assert found.conclusion == (
        "The driver had no memory left: the other users of the device are unknown."
    )
    assert (found.cause, found.account, found.device_bytes) == ("unknown", (), None)
    assert {"where", "device_bytes", "holders"} <= set(found.unavailable)


def test_of_several_gpus_the_only_one_without_room_has_refused() -> None:
    full, empty, unread = (
        GpuOccupancy(80 * GIB, free, (BOB,)) for free in (GIB // 10, 70 * GIB, None)
    )
    assert full_gpu([empty]) == empty
    assert full_gpu([empty, full, unread]) == full
    assert full_gpu([full, full]) is full_gpu([empty, unread]) is full_gpu([]) is None
