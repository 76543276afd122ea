"""The account of one device's memory at its peak: who owned it, and which line reached it."""

from __future__ import annotations

from array import array
from collections import Counter

from tui.snapshots.analysis.analysis import DeviceAnalysis
from tui.snapshots.model.results import PeakAccount, RoleBytes, Site
from tui.snapshots.model.snapshot import NOT_RECORDED, Action

TEMPORARIES = "temporaries"
ROLES = ("parameters", "buffers", "gradients", "optimizer state", "activations", TEMPORARIES)
"""The roles of an account, in its order."""
_BY_CATEGORY = {"forward pass": "activations"}


def account_peak(device: DeviceAnalysis) -> PeakAccount:
    """Return the account at the last moment at which live memory was at its peak.

    The steps of a training repeat their peak; at the last one, most of the owners that the agent
    found at the end already existed.
    """
    replayed, table, trace = device.replay, device.allocations, device.trace
    event = _find_last_rise(replayed.live, replayed.peak) - 1
    owned = {
        address: role.role
        for role in device.snapshot.agent.roles
        if role.device == device.index
        for address in role.addresses
    }
    sums: Counter[str] = Counter()
    for row in table.live_at(event):
        # An address is the owner's only if its allocation still existed at the end.
        lasts = table.completed[row] == table.events
        role = owned.get(table.address[row]) if lasts else None
        sums[role or _role_of(device.categories.of(row).name)] += table.size[row]
    state = device.state(event)
    stack = trace.stack[event] if event >= 0 else 0
    site = device.stacks.site(stack)
    time_us = trace.time_us[event] if event >= 0 else NOT_RECORDED
    return PeakAccount(
        device=device.index,
        event=event,
        time_us=None if time_us == NOT_RECORDED else time_us,
        live=replayed.peak,
        rounding=state.rounding,
        reserved=state.reserved,
        roles=tuple(RoleBytes(role, sums[role]) for role in ROLES if sums[role]),
        site=site,
        after=_find_line_before(device, event) if site.kind != "user" else None,
        reserved_peak=replayed.reserved_peak,
        doubts=(*replayed.doubts, *state.doubts),
    )


def _role_of(category: str) -> str:
    """Return the role of an allocation that no owner had at the end, by the category of its stack.

    A gradient that ``zero_grad`` freed, for example, has no owner any more.
    """
    role = _BY_CATEGORY.get(category, category)
    return role if role in ROLES else TEMPORARIES


def _find_last_rise(values: array[int], peak: int) -> int:
    """Return the last index at which the values rise to their peak; 0 if they begin there."""
    return next(
        index
        for index in reversed(range(len(values)))
        if values[index] == peak and (index == 0 or values[index - 1] < peak)
    )


def _find_line_before(device: DeviceAnalysis, event: int) -> Site | None:
    """Return the last line of the program that allocated memory before an event."""
    trace = device.trace
    for before in range(event - 1, -1, -1):
        if trace.action[before] == Action.ALLOC:
            site = device.stacks.site(trace.stack[before])
            if site.kind == "user":
                return site
    return None
