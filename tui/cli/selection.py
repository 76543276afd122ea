"""Which workloads, parameters and devices a command names, once the session knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.cli.errors import Failure, UsageError
from tui.cli.nearest import not_known
from tui.session.session import Session
from tui.state.parameters import Invalid, Valid, read_sweep
from tui.state.store import Store

INTERVAL_S = 0.5
"""Between two samples of the devices while workloads run."""


def chosen(
    store: Store,
    names: Sequence[str],
    groups: Sequence[str] = (),
    *,
    everything: bool = False,
) -> list[str]:
    """The workloads that were asked for, in the order of the catalogue.

    Args:
        store: which knows the catalogue.
        names: of workloads.
        groups: of which all workloads are meant.
        everything: the whole catalogue is meant.

    Raises:
        UsageError: a name or a group that is not in it.
        Failure: the same, where a file that may declare it could not be read.
    """
    catalogue = store.catalogue
    error = Failure if store.hello and store.hello.problems else UsageError
    known = [info.name for info in catalogue]
    known_groups = list(dict.fromkeys(info.group for info in catalogue))
    for name in names:
        if name not in known:
            if "=" in name:
                raise error(f"no workload {name} (did you mean --set {name}?)")
            raise error(not_known("workload", name, known, "gpu-workbench list"))
    for group in groups:
        if group not in known_groups:
            raise error(not_known("group", group, known_groups))
    return [
        info.name for info in catalogue if everything or info.name in names or info.group in groups
    ]


def set_parameters(
    session: Session, names: Sequence[str], texts: Mapping[str, str], *, sweeps: bool = False
) -> None:
    """Set each parameter in every chosen workload that has it.

    Args:
        session: whose store takes them.
        names: of the chosen workloads.
        texts: the values as they were typed, by parameter.
        sweeps: several values of a parameter are allowed.

    Raises:
        UsageError: a value that is not allowed, or a parameter that none of them has.
    """
    infos = [info for info in session.store.catalogue if info.name in names]
    for key in texts:
        if not any(key == parameter.name for info in infos for parameter in info.parameters):
            known = sorted({parameter.name for info in infos for parameter in info.parameters})
            raise UsageError(f"--set {key}: {not_known('parameter', key, known)}")
    for info in infos:
        own = {parameter.name for parameter in info.parameters}
        found = read_sweep(info, {key: text for key, text in texts.items() if key in own})
        if isinstance(found, Invalid):
            raise UsageError(f"--set {'; '.join(found.errors.values())}")
        if isinstance(found, Valid):
            session.set_parameters(info.name, found.parameters)
        elif not sweeps:
            several = " ".join(f"{key}={text}" for key, text in found.texts.items())
            raise UsageError(f"--set {several}: one value each; sweeps are for the run command")
        else:
            session.set_sweep(info.name, found)


def devices_to_use(session: Session, wanted: Sequence[str]) -> tuple[str, ...]:
    """The torch devices to run on.

    Raises:
        Failure: a device that torch does not have.
    """
    if not wanted:
        return session.default_devices()
    environment = session.store.environment
    known = [device.id for device in environment.devices] if environment else []
    devices = ["cuda:0" if device == "cuda" else device for device in wanted]
    for device in devices:
        if device not in known:
            why = environment.unavailable.get("devices", "") if environment else ""
            raise Failure(f"no device {device}: torch has {', '.join(known)}. {why}".rstrip())
    return tuple(devices)
