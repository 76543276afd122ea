"""The account of a device's memory at its peak."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from tests.snapshots.generator import Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import MIB, frames, segment
from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis
from tui.snapshots.analysis.peak import ROLES, TEMPORARIES, account_peak
from tui.snapshots.read.normalise import normalise

BASE = 0x7000_0000_0000


@given(SEEDS, OPTIONS)
def test_the_roles_add_up_to_the_peak_of_any_consistent_trace(seed: int, options: Options) -> None:
    _, _, analysis = analysed(seed, options)
    for device in analysis.devices.values():
        if device.faults or not device.replay.events:
            continue
        account = account_peak(device)
        assert account.live == device.replay.peak
        assert device.replay.live_at(account.event) == account.live
        assert account.event < 0 or device.replay.live_at(account.event - 1) < account.live
        if not account.doubts:
            assert sum(role.bytes for role in account.roles) == account.live
        assert {role.role for role in account.roles} <= set(ROLES)


def _entry(action: str, place: int, mib: int, stack: list[Any], time_us: int) -> dict[str, Any]:
    facts = {"action": action, "addr": BASE + place * MIB, "size": mib * MIB, "stream": 0}
    return {**facts, "frames": stack, "time_us": time_us}


def _step(*entries: dict[str, Any], roles: object = None) -> DeviceAnalysis:
    """Return a device with a parameter of 8 MiB and a gradient of 4 MiB at the end."""
    pieces = [("allocated", 8), ("allocated", 4), ("free", 20)]
    raw: dict[str, Any] = {
        "segments": [segment(BASE, pieces)],
        "device_traces": [list(entries)],
    }
    if roles is not None:
        raw["gpu_workbench"] = {"roles": roles}
    return Analysis(normalise(raw, file="rehearsed.pickle")).devices[0]


MODULE = {
    "filename": "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
    "line": 1778,
    "name": "_call_impl",
}
LINE = [MODULE, *frames("train_step", 5)]
ENTRIES = (
    _entry("alloc", 0, 8, LINE, 1),
    _entry("alloc", 12, 16, LINE, 2),  # an activation, freed below
    _entry("alloc", 28, 2, [], 3),  # in a thread of torch's own
    _entry("free_requested", 28, 2, [], 4),
    _entry("free_completed", 28, 2, [], 4),
    _entry("free_requested", 12, 16, LINE, 5),
    _entry("free_completed", 12, 16, LINE, 5),
    _entry("alloc", 8, 4, LINE, 6),
)


def test_owners_are_found_by_address_and_the_rest_by_its_stack() -> None:
    roles = [
        {"device": 0, "role": "parameters", "addresses": [BASE]},
        {"device": 0, "role": "gradients", "addresses": [BASE + 8 * MIB]},
        {"device": 1, "role": "buffers", "addresses": [BASE]},
    ]
    account = account_peak(_step(*ENTRIES, roles=roles))
    assert account.event == 2
    assert account.live == 26 * MIB
    analysis = {role.role: role.bytes for role in account.roles}
    # The gradient was allocated after the peak.
    assert analysis == {"parameters": 8 * MIB, "activations": 16 * MIB, TEMPORARIES: 2 * MIB}
    assert account.site.label == "no stack recorded"
    assert account.after is not None
    assert account.after.label == "train.py:5 train_step"


def test_the_last_of_several_equal_peaks_counts() -> None:
    again = _entry("alloc", 12, 16, LINE, 7), _entry("free_requested", 12, 16, LINE, 8)
    once = (*ENTRIES[:2], *ENTRIES[5:7])
    account = account_peak(_step(*once, *again, _entry("free_completed", 12, 16, LINE, 8)))
    assert account.time_us == 7


def test_roles_that_cannot_be_read_leave_the_stacks() -> None:
    account = account_peak(_step(*ENTRIES, roles=[{"role": 3}]))
    analysis = {role.role: role.bytes for role in account.roles}
    assert analysis == {"activations": 24 * MIB, TEMPORARIES: 2 * MIB}
