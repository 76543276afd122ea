"""``gpu-workbench devices --host``: the devices of several hosts, once or until a condition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.cli.sample import format_figures, format_host, sample_json
from tui.devices.host_plan import find_hosts
from tui.devices.state.devices import (
    FREE_BELOW_PERCENT,
    FREE_BYTES,
    FREE_SHARE,
    is_free,
    pair,
)
from tui.devices.state.same_machine import Overlap, SeenHost, distinct_devices, find_overlaps
from tui.devices.views.devices import rank_throttle_reasons
from tui.hosts.address import HERE, HostAddress
from tui.hosts.choice import HostChoice
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.watching import first_samples, watch_hosts
from tui.kit.command_line.output import (
    Failure,
    Rows,
    UsageError,
    print_json,
    print_notice,
    print_text,
)
from tui.kit.command_line.values import size_of
from tui.monitor.messages import Device, Sample


@dataclass(frozen=True, slots=True)
class HostsOptions(HostChoice):
    """The hosts, the duration and the output format."""

    json: bool = False
    jsonl: bool = False
    seconds: float | None = None
    until: int | None = None
    """Bytes that must be free on an idle GPU."""

    @property
    def lasts(self) -> bool:
        """The options request more than one sample of each host."""
        return self.jsonl or self.seconds is not None or self.until is not None


async def print_hosts(options: HostsOptions) -> int:
    """Print the devices of several hosts; return the exit code.

    Returns:
        0, or 1 if no host has answered, or none of those that the options name.

    Raises:
        Failure: ``--until`` was not met in time.
        OutputClosedError: the reader of ``--jsonl`` has gone.
        UsageError: the options name no hosts.
    """
    plan = find_hosts(options)
    hosts = (*((HERE,) if plan.here else ()), *plan.hosts)
    pythons = plan.pythons
    if options.lasts:
        return await _follow(hosts, pythons, options)
    events = await first_samples(hosts, pythons)
    if options.json:
        print_json({"hosts": [event_json(event) for event in events]})
    else:
        print_text(hosts_text(events))
    return choose_exit_code(events)


async def _follow(
    hosts: Sequence[HostAddress], pythons: Mapping[str, str], options: HostsOptions
) -> int:
    newest: dict[str, HostEvent] = {}
    rows = Rows("")
    criteria = options.until

    met = False

    def apply(event: HostEvent) -> bool:
        nonlocal met
        newest[event.host] = event
        if options.jsonl:
            rows.add(json.dumps(event_json(event), allow_nan=False))
        if criteria is None:
            return rows.failed
        met = any(free_devices((event,), criteria))
        known = tuple(newest.values())
        return met or rows.failed or bool(explain_no_gpu(known, len(hosts), criteria))

    if criteria is not None:
        print_notice(describe_wait(hosts, criteria, options.seconds))
    await watch_hosts(hosts, apply, pythons=pythons, within_s=options.seconds)
    rows.end()
    ordered = tuple(newest[host.name] for host in hosts if host.name in newest)
    is_unmet = criteria is not None and not met
    hopeless = explain_no_gpu(ordered, len(hosts), criteria or 0) if is_unmet else ""
    if options.json:
        print_json({"hosts": [event_json(event) for event in ordered]})
    elif not options.jsonl:
        print_text(hosts_text(ordered, criteria))
    if hopeless:
        raise Failure(hopeless)
    if criteria is not None and not met:
        raise Failure(
            f"no GPU had {fmt.size(criteria)} free and was idle within"
            f" {fmt.duration(options.seconds)}"
        )
    return 0 if met else choose_exit_code(ordered)


def choose_exit_code(newest: Sequence[HostEvent]) -> int:
    """Return 1 if no other machine was reached, or without any, this one was not.

    Args:
        newest: the newest event of each host with one.
    """
    named = [event for event in newest if event.host != HERE.name]
    return 0 if any(isinstance(event, HostSample) for event in named or newest) else 1


def describe_wait(hosts: Sequence[HostAddress], least_bytes: int, seconds: float | None) -> str:
    """Return what ``--until`` waits for, where, and for how long at most."""
    names = ", ".join("this machine" if host is HERE else host.name for host in hosts)
    end = "" if seconds is None else f", for {fmt.duration(seconds)} at most"
    criteria = f"{fmt.size(least_bytes)} free, under {FREE_BELOW_PERCENT:g}% busy"
    return f"waiting for a GPU with {criteria}, on {names}{end}"


def explain_no_gpu(newest: Sequence[HostEvent], hosts: int, least_bytes: int = 0) -> str:
    """Return why no GPU can become free on any host; empty while one may.

    A host that was not reached may have GPUs, and so may one whose NVML has not answered yet.

    Args:
        newest: the newest event of each host with one.
        hosts: the number of hosts.
        least_bytes: the least free bytes.
    """
    samples = [event.sample for event in newest if isinstance(event, HostSample)]
    if len(samples) < hosts:
        return ""
    where = "here" if [event.host for event in newest] == [HERE.name] else "on any of these hosts"
    if not any(map(_may_have_gpu, samples)):
        return f"no GPU can become free: there is no GPU and no NVIDIA driver {where}"
    totals = [device.memory.total for sample in samples for device in sample.devices]
    known = [total for total in totals if total is not None]
    silent = any(sample.nvml_silent_s is not None for sample in samples)
    if silent or not known or len(known) < len(totals) or max(known) >= least_bytes:
        return ""
    sizes = f"the largest has {fmt.size(max(known))} in all, less than {fmt.size(least_bytes)}"
    return f"no GPU {where} can have so much free: {sizes}"


def _may_have_gpu(sample: Sample) -> bool:
    return bool(sample.devices) or sample.nvml_silent_s is not None or not sample.driver.missing


def event_json(event: HostEvent) -> dict[str, Any]:
    """Return an event of a host as an object of ``--json`` and ``--jsonl``."""
    if isinstance(event, HostLost):
        return {"host": event.host, "error": event.reason, "retry_s": event.retry_s}
    sample = sample_json(event.sample)
    return {"host": event.host, "round_trip_s": event.round_trip_s, "sample": sample}


def free_devices(
    events: Sequence[HostEvent], least_bytes: int | None = None
) -> Iterator[tuple[str, Device]]:
    """Yield the idle GPUs with enough free memory, with the names of their hosts.

    A MIG instance counts as a GPU, but its parent GPU does not. A GPU that several hosts have
    counts once, on the first. A GPU with unknown memory or utilization is not free.

    Args:
        events: the newest event of each host.
        least_bytes: the least free bytes; ``None`` for the default of each GPU.
    """
    for name, device in distinct_devices(_list_devices(events)):
        if is_free(device, least_bytes):
            yield name, device


def _list_devices(events: Sequence[HostEvent]) -> list[tuple[str, Sequence[Device]]]:
    return [(event.host, event.sample.devices) for event in events if isinstance(event, HostSample)]


def hosts_text(events: Sequence[HostEvent], least_bytes: int | None = None) -> str:
    """Return the hosts as text: the number of free GPUs, then each host with its devices.

    Args:
        events: the newest event of each host.
        least_bytes: the least free bytes of a free GPU; ``None`` for the default of each GPU.
    """
    of_hosts = _list_devices(events)
    devices = list(distinct_devices(of_hosts))
    overlaps = find_overlaps(
        [
            SeenHost.of_sample(event.host, event.sample)
            for event in events
            if isinstance(event, HostSample)
        ]
    )
    free = sum(1 for _ in free_devices(events, least_bytes))
    enough = f"{fmt.size(least_bytes or FREE_BYTES)} or more"
    if least_bytes is None:
        enough = f"{fmt.size(FREE_BYTES)} or {FREE_SHARE:.0%} of the memory"
    criteria = f"{enough}, under {FREE_BELOW_PERCENT:g}% busy"
    summary = f"{free} of {fmt.count(len(devices), 'GPU')} free ({criteria})"
    lines = [summary if devices else _describe_none(len(of_hosts), len(events))]
    for event in events:
        lines += ["", *_host_lines(event, overlaps.get(event.host))]
    return rows_of_text(lines)


def _describe_none(reached: int, hosts: int) -> str:
    if not reached:
        return "no host was reached"
    return "no GPU found" if reached == hosts else "no GPU found on the hosts that were reached"


def _host_lines(event: HostEvent, overlap: Overlap | None) -> list[str]:
    if isinstance(event, HostLost):
        return [f"{event.host}  not reached: {event.reason}"]
    sample, driver = event.sample, event.sample.driver
    parts = [event.host, sample.host.name] if sample.host.name != event.host else [event.host]
    parts.append(_models(sample))
    if overlap is not None:
        parts.append(overlap.describe())
    if driver.version:
        parts.append(f"driver {driver.version}")
    if event.round_trip_s is not None:
        parts.append(f"{1000 * event.round_trip_s:.0f} ms away")
    lines = ["  ".join(parts)]
    if driver.error:
        lines.append(f"  {driver.error}")
    lines += [f"  {problem}" for problem in sample.problems]
    for view in pair(sample.devices, (), host=event.host):
        if view.nvml is not None:
            lines.append(f"  {device_line(view.label, view.nvml)}")
    lines.append(f"  cpu  {format_host(sample.host)}")
    return lines


def _models(sample: Sample) -> str:
    names = [device.name for device in sample.devices if device.parent is None]
    counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    return ", ".join(counts) or "no GPU"


def device_line(label: str, device: Device) -> str:
    """Return the line of one device of a host, which begins with its label, such as ``gpu1:0``."""
    if device.lost is not None:
        return f"{label}  {device.name}  lost: {device.lost}"
    parts = [label, *format_figures(device)]
    users = dict.fromkeys(row.user for row in device.processes or () if row.user)
    parts += [*users]
    if reasons := rank_throttle_reasons(device):
        parts.append(", ".join(reasons))
    return "  ".join(parts)


def parse_until(text: str) -> int:
    """Return the bytes of ``--until 'free 20G'``.

    Raises:
        UsageError: the text does not have that form, or the size has no unit.
    """
    match = re.fullmatch(r"\s*free\s+(\S.*)", text)
    if match is None:
        raise UsageError(f"--until {text}: give the free memory, such as 'free 20G'")
    if re.fullmatch(r"[\d.]+\s*", match[1]):
        # So few bytes are free on every GPU.
        number = match[1].strip()
        raise UsageError(f"--until {text}: {number} of what? Give a unit, such as 'free {number}G'")
    return size_of(match[1], "--until free")
