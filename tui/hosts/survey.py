"""What a host offers: its Pythons with their torch, and whether processes can be read there."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, Union

from tui import allocators
from tui.allocators.process_files import ReadAccess
from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.hosts.address import HostAddress
from tui.hosts.archive import build_archive
from tui.hosts.boot import EACH_PYTHON, boot_command, preamble
from tui.hosts.children import BANNER_LINES, CONNECT_WITHIN_S
from tui.hosts.failures import HostFailure, explain_failure, explain_silence
from tui.monitor.topology import GpuTopology
from workloads.protocol.keep_alive import Alive, KeepAlive

E = TypeVar("E")

SURVEY_WITHIN_S = 60.0
"""Seconds for all Pythons of a host to start, which may be on a network's file system."""
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


class HostFailureError(Exception):
    """A host cannot be used.

    Args:
        failure: why, and what to do.
    """

    def __init__(self, failure: HostFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


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

    def apply(event: _SurveyEvent) -> None:
        nonlocal sent_at, round_trip_s
        if isinstance(event, SurveyStarted):
            sent_at = time.monotonic()
            child.send(KeepAlive(1))
        elif isinstance(event, Alive):
            round_trip_s = time.monotonic() - sent_at
        else:
            pythons.setdefault((event.prefix, event.version), event)

    await _apply_events(host, child, apply)
    return Survey(tuple(pythons.values()), round_trip_s)


async def check_access(host: HostAddress, python: str | None = None) -> ReadAccess:
    """Return whether the running processes of the user can be read on a host.

    Args:
        host: the host.
        python: name or path of its Python; ``None`` for ``python3``.

    Raises:
        HostFailureError: the host cannot be reached or its Python is unusable.
    """
    sent = preamble(build_archive(), allocators.MODULE, ("check",))
    command = host.command(boot_command(python or "python3"))
    child = ChildProcess(command, (ReadAccess,), folder=FOLDER, preamble=sent)
    answers: list[ReadAccess] = []
    await _apply_events(host, child, answers.append)
    return answers[-1]


async def query_topology(host: HostAddress, python: str | None = None) -> GpuTopology:
    """Return how the GPUs of a host are connected.

    Args:
        host: the host.
        python: name or path of its Python; ``None`` for ``python3``.

    Raises:
        HostFailureError: the host cannot be reached or its Python is unusable.
    """
    sent = preamble(build_archive(), "tui.monitor", ("topology",))
    command = host.command(boot_command(python or "python3"))
    child = ChildProcess(command, (GpuTopology,), folder=FOLDER, preamble=sent)
    answers: list[GpuTopology] = []
    await _apply_events(host, child, answers.append)
    # A host may be anybody's: its texts must not control this terminal.
    return with_texts(answers[-1], clean, keys=False)


async def _apply_events(
    host: HostAddress, child: ChildProcess[E], apply: Callable[[E], object]
) -> None:
    """Start a child on a host, pass each of its events on, and return once it has ended.

    Raises:
        HostFailureError: it sent no event in time.
    """
    banner: deque[str] = deque(maxlen=BANNER_LINES)
    answered = asyncio.Event()
    """Set by the first event, or by the end."""
    has_events = False

    async def read() -> str:
        nonlocal has_events
        async for event in child.events():
            if isinstance(event, MalformedMessage):
                banner.append(event.line or event.reason)
            else:
                has_events = True
                apply(event)
                answered.set()
        ended = await child.ended()
        answered.set()
        return ended

    try:
        await child.start()
    except OSError as error:
        text = f"{host.prefix[0]} cannot be started: {error.strerror or error}"
        raise HostFailureError(HostFailure(text)) from error
    reading = asyncio.create_task(read())
    limit_s = CONNECT_WITHIN_S
    try:
        await asyncio.wait_for(answered.wait(), limit_s)
        limit_s = SURVEY_WITHIN_S
        ended = await asyncio.wait_for(reading, limit_s)
    except asyncio.TimeoutError as error:
        raise HostFailureError(explain_silence(host, limit_s)) from error
    finally:
        reading.cancel()
        child.kill()
        await child.ended()
    if not has_events:
        errors = child.stderr.last()
        raise HostFailureError(explain_failure(host, ended, errors, tuple(banner)))
