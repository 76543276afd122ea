"""What a result was measured on, as facts with names: they tell two environments apart."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tui.monitor.messages import Device, Sample
from tui.results.records import Facts
from tui.state.pairing import DeviceView
from workloads.protocol.inventory import Environment, TorchDevice

FLAG = "flag "
"""Before the name of a backend's flag among the facts."""
VARIABLE = "variable "
"""Before the name of an environment variable."""
ORDER = (
    "box",
    "gpu",
    "gpu uuid",
    "vbios",
    "power limit",
    "driver",
    "cuda",
    "cudnn",
    "torch",
    "python",
    "cpu",
    "cpus",
    "threads",
    "interop threads",
    "malloc",
    "kernel",
    "container",
)
"""The facts in the order in which differences are told; flags and variables follow."""
VERSIONS = ("driver", "cuda", "cudnn", "torch", "python", "kernel")
"""Facts that the first parts of a version select: ``torch=2.12`` is 2.12.0 and 2.12.1+cu130."""

_NAMED_BY_SYSTEMD = "container"
"""The variable that systemd, podman and others set (systemd.io/CONTAINER_INTERFACE)."""

NOT_SEEN = "the monitor did not see this device"
NOT_GIVEN = "NVML did not give it"
NOT_READY = "the runner did not say"


def place(name: str) -> tuple[int, str]:
    """Where a fact stands among others: those that matter most are first."""
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def facts_of(
    environment: Environment | None,
    sample: Sample | None,
    views: Sequence[DeviceView],
    devices: Sequence[str],
    flags: Mapping[str, bool],
) -> Facts:
    """The facts of a measurement on this box.

    Args:
        environment: of the runner.
        sample: the monitor's newest, where there is a monitor.
        views: the devices under both of their names.
        devices: that worked, in torch's words.
        flags: that it ran under.
    """
    values = {
        "box": sample.host.name if sample else platform.node(),
        "kernel": f"{platform.system()} {platform.release()}",
        "container": _container(),
    }
    unknown: dict[str, str] = {}
    _add_software(environment, flags, values, unknown)
    _add_gpus(environment, sample, views, devices, values, unknown)
    return Facts(values, unknown)


def facts_of_output(
    environment: Environment | None, devices: Sequence[str], flags: Mapping[str, bool]
) -> Facts:
    """The facts of a result that ``run --json`` printed somewhere; it does not say on which box.

    Args:
        environment: as it was printed.
        devices: that worked, in torch's words.
        flags: that it ran under.
    """
    reason = "run --json does not say"
    values: dict[str, str] = {}
    unknown = dict.fromkeys(("box", "kernel", "container"), reason)
    _add_software(environment, flags, values, unknown)
    _add_gpus(environment, None, (), devices, values, unknown)
    return Facts(
        values, {name: reason if why == NOT_SEEN else why for name, why in unknown.items()}
    )


def _add_software(
    environment: Environment | None,
    flags: Mapping[str, bool],
    values: dict[str, str],
    unknown: dict[str, str],
) -> None:
    values.update({f"{FLAG}{name}": "on" if on else "off" for name, on in sorted(flags.items())})
    if environment is None:
        unknown.update(dict.fromkeys(("torch", "python", "cpu", "threads"), NOT_READY))
        return
    values.update(
        torch=environment.torch,
        python=environment.python,
        cpu=environment.cpu,
        cpus=str(environment.cpus_usable),
        threads=str(environment.threads),
        malloc=environment.malloc,
    )
    values["interop threads"] = str(environment.interop_threads)
    values.update(
        {f"{VARIABLE}{name}": text for name, text in sorted(environment.variables.items())}
    )


def _add_gpus(
    environment: Environment | None,
    sample: Sample | None,
    views: Sequence[DeviceView],
    devices: Sequence[str],
    values: dict[str, str],
    unknown: dict[str, str],
) -> None:
    """What is known of the GPUs that worked; on the CPU alone there is nothing to tell of them."""
    names = [name for name in devices if name.startswith("cuda")]
    if not names:
        return
    known = {device.id: device for device in (environment.devices if environment else ())}
    torch = [known[name] for name in names if name in known]
    seen = {view.torch: view.nvml for view in views if view.torch and view.nvml}
    nvml = [device for name in names if (device := seen.get(name)) is not None]
    facts: dict[str, str] = {
        "gpu": _together(_name(device, seen) for device in torch),
        "gpu uuid": _together(device.uuid for device in torch),
        "vbios": _together(device.vbios for device in nvml),
        "power limit": _together(_watts(device) for device in nvml),
        "driver": (sample.driver.version if sample else None) or "",
    }
    for name, text in facts.items():
        if text:
            values[name] = text
        else:
            unknown[name] = NOT_GIVEN if nvml else NOT_SEEN
    if environment is None:
        return
    for name, version in (("cuda", environment.cuda), ("cudnn", environment.cudnn)):
        if version is not None:
            values[name] = version
        else:
            unknown[name] = environment.unavailable.get(name, NOT_READY)


def _name(device: TorchDevice, seen: Mapping[str, Device]) -> str:
    found = seen.get(device.id)
    return found.name if found else device.name


def _watts(device: Device) -> str | None:
    return None if device.power_limit_w is None else f"{device.power_limit_w:g} W"


def _together(texts: Iterable[str | None]) -> str:
    """The same text once, with how often; nothing where one of them is not known."""
    found = list(texts)
    if not all(found):
        return ""
    counted = {text: found.count(text) for text in found}
    return ", ".join(
        f"{count} x {text}" if count > 1 else f"{text}" for text, count in counted.items()
    )


@functools.cache
def _container() -> str:
    """What this program runs in; the runner is its child, and so in the same."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if named := os.environ.get(_NAMED_BY_SYSTEMD):
        return named
    for mark, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(mark).exists():
            return name
    return "none"
