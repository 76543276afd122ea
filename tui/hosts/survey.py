"""What a host offers: its Pythons with their torch, and whether processes can be read there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar, Union

from tui import allocators
from tui.allocators.process_files import ReadAccess
from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess
from tui.hosts.address import HostAddress
from tui.hosts.boot import EACH_PYTHON
from tui.hosts.children import CONNECT_WITHIN_S, HostConnection, HostExchange
from tui.monitor.topology import GpuTopology
from workloads.protocol.keep_alive import Alive, KeepAlive

E = TypeVar("E")

SURVEY_WITHIN_S = 60.0
"""Seconds for a Python of a host to start, which may be on a network's file system."""
_DESCRIBE = """\
import json, sys
del sys.path[0]
from importlib.util import find_spec
torch = None
if find_spec("torch") is not None:
    try:
        from importlib.metadata import version
        torch = version("torch")
    except ImportError:
        torch = ""
print(json.dumps({
    "type": "python_found", "path": sys.executable, "prefix": sys.prefix,
    "version": list(sys.version_info[:3]), "torch": torch,
}))
"""
"""Program for each Python: it runs on Python 3.6, and prints a :class:`PythonFound`."""
_SURVEY = f"""\
echo '{{"type": "survey_started"}}'
read -r request
echo '{{"type": "alive", "number": 1}}'
{EACH_PYTHON}\
  "$found" -c "$0" </dev/null 2>/dev/null
done
exit 0
"""
"""Script of sh; its name is :data:`_DESCRIBE`, its arguments are further Pythons.

It answers one keep-alive: nothing but the link takes time then.
"""


@dataclass(frozen=True, slots=True)
class SurveyStarted:
    """Event: the host runs our script."""


@dataclass(frozen=True, slots=True)
class PythonFound:
    """Event: a Python 3 of a host."""

    path: str
    prefix: str
    """Folder of its environment; one may have several names for its Python."""
    version: tuple[int, int, int]
    torch: str | None
    """Version; ``None`` without torch, empty if unknown, as before Python 3.8."""


_SurveyEvent = Union[SurveyStarted, Alive, PythonFound]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a host offers."""

    pythons: tuple[PythonFound, ...]
    """Each once, in the order in which they are tried."""
    round_trip_s: float | None
    """Of a keep-alive; ``None`` if it was not answered."""


async def survey_host(host: HostAddress, python: str | None = None) -> Survey:
    """Return the Pythons of a host, and how far away it is.

    Args:
        host: the host.
        python: name or path of one more, which comes first; ``None`` for no other.

    Raises:
        HostFailureError: the host cannot be reached or does not run our script.
    """
    kinds: tuple[type[_SurveyEvent], ...] = (SurveyStarted, Alive, PythonFound)
    words = ("sh", "-c", _SURVEY, _DESCRIBE, *((python,) if python else ()))
    child: ChildProcess[_SurveyEvent] = ChildProcess(host.command(words), kinds, folder=FOLDER)
    sent_at, round_trip_s = 0.0, None
    pythons: dict[tuple[str, tuple[int, int, int]], PythonFound] = {}
    exchange = HostExchange(host, child)
    try:
        await exchange.start()
        event: _SurveyEvent | None = await exchange.next(CONNECT_WITHIN_S)
        while event is not None:
            if isinstance(event, SurveyStarted):
                sent_at = time.monotonic()
                child.send(KeepAlive(1))
            elif isinstance(event, Alive):
                round_trip_s = time.monotonic() - sent_at
            else:
                pythons.setdefault((event.prefix, event.version), event)
            event = await exchange.find_next(SURVEY_WITHIN_S)
    finally:
        await exchange.close()
    return Survey(tuple(pythons.values()), round_trip_s)


async def check_access(host: HostAddress, python: str | None = None) -> ReadAccess:
    """Return whether the running processes of the user can be read on a host.

    Args:
        host: the host.
        python: name or path of its Python; ``None`` for ``python3``.

    Raises:
        HostFailureError: the host cannot be reached or its Python is unusable.
    """
    return await _query(host, python, ReadAccess, allocators.MODULE, "check")


async def query_topology(host: HostAddress, python: str | None = None) -> GpuTopology:
    """Return how the GPUs of a host are connected.

    Args:
        host: the host.
        python: name or path of its Python; ``None`` for ``python3``.

    Raises:
        HostFailureError: the host cannot be reached or its Python is unusable.
    """
    return await _query(host, python, GpuTopology, "tui.monitor", "topology")


async def _query(
    host: HostAddress, python: str | None, kind: type[E], module: str, argument: str
) -> E:
    """Return the only message of one of our modules on a host."""
    child = HostConnection(host, python).module_child((kind,), module, (argument,))
    exchange = HostExchange(host, child)
    try:
        await exchange.start()
        return await exchange.next(CONNECT_WITHIN_S)
    finally:
        await exchange.close()
