"""Several hosts watched at once, for commands: the newest of each, until a condition or a time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tui.hosts.address import HostAddress
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.monitor import HostMonitor

ANSWER_WITHIN_S = 25.0
"""Seconds for the first answer of every host."""


async def watch_hosts(
    hosts: Sequence[HostAddress],
    apply: Callable[[HostEvent], bool],
    *,
    interval: float = 1.0,
    pythons: Mapping[str, str] | None = None,
    within_s: float | None = None,
) -> bool:
    """Pass each event of the hosts on until one is the last; then end their children.

    Args:
        hosts: to connect to, at the same time.
        apply: gets each event; returns ``True`` where no other is wanted.
        interval: seconds between two samples of a host.
        pythons: names or paths of Pythons, by the names of their hosts.
        within_s: seconds after which it ends in any case; ``None`` for never.

    Returns:
        Whether ``apply`` ended it, and not the time.
    """
    done = asyncio.Event()

    def publish(event: HostEvent) -> None:
        if not done.is_set() and apply(event):
            done.set()

    # This machine's monitor runs in our own Python.
    own = {host.name: sys.executable for host in hosts if not host.prefix}
    python_of = {**own, **(pythons or {})}
    monitors = [HostMonitor(host, publish, interval, python_of.get(host.name)) for host in hosts]
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(monitor.watch()) for monitor in monitors]
    tasks.append(asyncio.create_task(done.wait()))
    try:
        finished, _ = await asyncio.wait(
            tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in finished:
            task.result()
        return done.is_set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(monitor.close() for monitor in monitors))


async def first_samples(
    hosts: Sequence[HostAddress],
    pythons: Mapping[str, str] | None = None,
    within_s: float = ANSWER_WITHIN_S,
) -> tuple[HostEvent, ...]:
    """Return a sample of each host, or why there is none, in the hosts' order.

    Args:
        hosts: to connect to, at the same time.
        pythons: names or paths of Pythons, by the names of their hosts.
        within_s: seconds to wait for all of them.
    """
    newest: dict[str, HostEvent] = {}
    answered: set[str] = set()

    def apply(event: HostEvent) -> bool:
        if isinstance(event, HostSample) or event.host not in newest:
            newest[event.host] = event
        # While NVML starts, a sample has no devices.
        if isinstance(event, HostLost) or event.sample.nvml_silent_s is None:
            answered.add(event.host)
        return len(answered) == len(hosts)

    await watch_hosts(hosts, apply, pythons=pythons, within_s=within_s)
    silent = f"no answer within {within_s:g} s"
    return tuple(newest.get(host.name, HostLost(host.name, silent, 0.0)) for host in hosts)
