"""``gpu-workbench serve`` as a process, and a page's websocket without a browser."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import aiohttp
import psutil
import pyte

TIMEOUT_S = 60.0
_KITTY_KEYS = re.compile(rb"\x1b\[[<>=?][0-9;]*u")
"""pyte prints the last letter of these."""


class Painted:
    """What has been drawn, as text."""

    def __init__(self, columns: int = 100, rows: int = 30) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)

    def feed(self, data: bytes) -> None:
        self._stream.feed(_KITTY_KEYS.sub(b"", data))

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)


@dataclass
class Server:
    process: subprocess.Popen[str]
    said: str = ""

    @property
    def url(self) -> str:
        found = re.search(r"http://localhost:\S+/", self.said)
        assert found is not None, self.said
        return found[0]

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    def visits(self) -> list[psutil.Process]:
        """Return the workbenches that it has started."""
        return psutil.Process(self.process.pid).children()

    def family(self) -> list[psutil.Process]:
        """All that it has started, and what that has."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)


def _hear_signals() -> None:
    """Restore the signals that a shell, as with nohup, may have ignored for the tests."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def serving(*arguments: str, folder: Path | None = None) -> Iterator[Server]:
    """Serve the workbench with these arguments, on any free port."""
    code = "import sys; sys.path.pop(0); from tui.cli.main import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, cwd=folder, preexec_fn=_hear_signals
    ) as process:
        assert process.stdout is not None
        server = Server(process)
        try:
            server.said = "".join(process.stdout.readline() for _ in range(3))
            yield server
        finally:
            family = server.family() if process.poll() is None else []
            process.kill()
            psutil.wait_procs(family, timeout=TIMEOUT_S)


@dataclass
class Page:
    """One open page: what it shows, and its keyboard."""

    socket: aiohttp.ClientWebSocketResponse[bool]
    painted: Painted = field(default_factory=Painted)

    async def shows(self, *words: str) -> None:
        """Draw what the page gets until it shows these words, for at most TIMEOUT_S seconds."""
        try:
            await asyncio.wait_for(self._draw_until(words), TIMEOUT_S)
        except asyncio.TimeoutError:
            raise AssertionError(f"{words} did not come; it shows\n{self.painted.text}") from None

    async def _draw_until(self, words: Sequence[str]) -> None:
        while not all(word in self.painted.text for word in words):
            message = await self.socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise AssertionError(f"it ended with {message} on\n{self.painted.text}")
            self.painted.feed(cast(bytes, message.data))

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.socket.send_json(["stdin", key])

    async def ended(self) -> None:
        """Wait until the other side has closed."""
        while not self.socket.closed:
            await asyncio.wait_for(self.socket.receive(), TIMEOUT_S)


@asynccontextmanager
async def page(server: Server, headers: Sequence[tuple[str, str]] = ()) -> AsyncIterator[Page]:
    """Open the page's websocket."""
    url = f"{server.url.replace('http', 'ws', 1)}ws?width=100&height=30"
    async with (
        aiohttp.ClientSession(headers=dict(headers)) as session,
        session.ws_connect(url) as socket,
    ):
        yield Page(socket)
