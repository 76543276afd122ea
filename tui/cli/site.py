"""The workbench in a browser: its page, its websocket, access checks, and the visits.

Whoever has the page can do everything the workbench can: run workloads, read files, end
processes. Every user of this machine can reach the loopback address, and any page in a browser
can send requests to it. So the page's address contains a key that nobody can guess; a request must
call this host ``localhost`` or by its address, because other names may have been made to point
here (DNS rebinding); and a websocket that another page opens is refused. None of this keeps out
root, other programs of the same user, or anyone who is shown the address.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from tui.kit import terminal

if TYPE_CHECKING:
    from textual_serve.download_manager import DownloadManager

ADDRESS = "127.0.0.1"
KEY_BYTES = 16
MOST_VISITS = 8
"""Visits at a time: each is a process with children of its own."""

_HERE = re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d{1,5})?", re.IGNORECASE)
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " connect-src 'self' ws://localhost:* ws://127.0.0.1:*;"
    " frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers: load nothing from elsewhere, allow no frame in another page, send the key to nobody."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebSite(Server):
    """Serves a program to whoever has the key.

    Args:
        argv: program and arguments.
        port: port of :data:`ADDRESS`; 0 for any free one.
    """

    def __init__(self, argv: Sequence[str], port: int) -> None:
        super().__init__("gpu-workbench", host=ADDRESS, port=port, title="gpu-workbench")
        self.key = secrets.token_urlsafe(KEY_BYTES)
        self._argv = list(argv)
        self._visits: set[Visit] = set()
        self._runner: web.AppRunner | None = None

    @property
    def path(self) -> str:
        """The path of the page, which contains the key."""
        return f"/{self.key}/"

    async def start(self) -> int:
        """Start listening; returns the port.

        Raises:
            OSError: the port is not available.
        """
        self._runner = web.AppRunner(await self._make_app(), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, ADDRESS, self.port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """End all visits, and stop listening."""
        await asyncio.gather(*(visit.stop() for visit in list(self._visits)))
        if self._runner is not None:
            await self._runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[web.middleware(guard)])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(self.templates_path))
        app.add_routes(
            [
                web.get(self.path, self.handle_index, name="index"),
                web.get(f"{self.path}ws", self.handle_websocket, name="websocket"),
                web.get(f"{self.path}download/{{key}}", self.handle_download, name="download"),
                web.static(f"{self.path}static", self.statics_path, name="static"),
            ]
        )
        return app

    async def handle_index(self, request: web.Request) -> web.Response:
        """Return the page; its parts have the address that the browser used for it."""
        context = {
            "font_size": to_int(request.query.get("fontsize", "16"), 16),
            "app_websocket_url": f"ws://{request.host}{self.path}ws",
            "config": {"static": {"url": f"{self.path}static/"}},
            "application": {"name": self.title},
        }
        return aiohttp_jinja2.render_template("app_index.html", request, context)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a workbench for as long as the connection lasts."""
        if len(self._visits) >= MOST_VISITS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_VISITS} pages are open; close one\n")
        socket = web.WebSocketResponse(heartbeat=15)
        await socket.prepare(request)

        async def close() -> None:
            await socket.close()

        visit = Visit(self._argv, socket.send_bytes, socket.send_str, close, self.download_manager)
        self._visits.add(visit)
        try:
            width, height = (
                to_int(request.query.get(name, ""), default)
                for name, default in (("width", 80), ("height", 24))
            )
            await visit.start(width, height)
            await self._process_messages(socket, visit)
        finally:
            await asyncio.shield(visit.stop())
            self._visits.discard(visit)
        return socket


async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests that call this host by another name, and websockets of other pages."""
    if not _HERE.fullmatch(request.host):
        raise web.HTTPForbidden(text="this page is at localhost and has no other name\n")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise web.HTTPForbidden(text="this was sent by another page\n")
    response = await handler(request)
    if not response.prepared:
        response.headers.update(_HEADERS)
    return response


TIMEOUT_S = 5.0
"""Seconds for an orderly end: the workbench gives its own children four seconds."""


class Visit(AppService):
    """Runs the workbench for one page, without a shell, and leaves nothing behind.

    Args:
        argv: program and arguments.
        write_bytes: sends bytes to the page.
        write_str: sends text to the page.
        close: closes the page's connection.
        download_manager: the server's download manager.
    """

    def __init__(
        self,
        argv: Sequence[str],
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_str: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        download_manager: DownloadManager,
    ) -> None:
        super().__init__(
            argv[0],
            write_bytes=write_bytes,
            write_str=write_str,
            close=close,
            download_manager=download_manager,
        )
        self._argv = argv

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        # Behind a tunnel each frame costs bytes; without this, it asks for 60 a second.
        return {**super()._build_environment(width, height), "TEXTUAL_FPS": terminal.FPS_SSH}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # A session of its own: Ctrl-C in the server's terminal must not reach it.
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Pass on the workbench's frames until it ends, then close the page's connection."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """Ask the workbench to end, and make sure that it does."""
        process, self._process = self._process, None
        if process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        await self.send_meta({"type": "quit"})
        try:
            await asyncio.wait_for(process.wait(), TIMEOUT_S)
        except asyncio.TimeoutError:
            self._kill(process)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    def _kill(self, process: Process) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # the process ended just now
