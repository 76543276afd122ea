"""Recognize hosts that are to be measured at once, and are one machine or share a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.devices.state.devices import CPU
from tui.headless.host_runs import HostRuns
from tui.headless.waiter import choose_devices
from tui.kit.command_line.output import Failure
from tui.runs.session.session import Session
from workloads.protocol.machine_identity import MachineIdentity


def usable_sessions(lanes: Sequence[HostRuns]) -> dict[str, Session]:
    """Return the sessions of the hosts that can run, by name.

    Args:
        lanes: the hosts, after their attempt to connect.
    """
    return {
        lane.host.name: lane.session
        for lane in lanes
        if lane.session is not None and not lane.error
    }


def explain_same_machine(sessions: Mapping[str, Session], wanted: Sequence[str]) -> str:
    """Return which two hosts are one machine or share a GPU; empty if all are apart.

    A machine that cannot be recognized is apart from all others.

    Args:
        sessions: of the hosts, by name; torch has answered on each.
        wanted: the devices, as typed.
    """
    known: dict[str, MachineIdentity] = {}
    owners: dict[str, str] = {}
    for name, session in sessions.items():
        identity = session.state.machine.identity
        for other, other_identity in known.items():
            if identity.is_same_system(other_identity):
                return f"{name} is the same machine as {other}"
        known[name] = identity
        for uuid, device in _find_gpus(session, wanted).items():
            owner = owners.setdefault(uuid, name)
            if owner != name:
                return f"{device} of {name} is also a GPU of {owner}"
    return ""


def _find_gpus(session: Session, wanted: Sequence[str]) -> Mapping[str, str]:
    """Return torch's names of the chosen GPUs by UUID; a GPU without one is nobody else's."""
    environment = session.state.machine.environment
    try:
        chosen = [device for device in choose_devices(session, wanted) if device != CPU]
    except Failure:
        # The run says that this device is missing.
        return {}
    devices = environment.devices if environment is not None else ()
    return {device.uuid: device.id for device in devices if device.id in chosen and device.uuid}
