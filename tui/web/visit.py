"""One visit to the page: a workbench of its own, which ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService

from tui.ui import terminal

if TYPE_CHECKING:
    from textual_serve.download_manager import DownloadManager

PATIENCE_S = 5.0
"""For an orderly end: the workbench gives its own children four seconds."""


class Visit(AppService):
    """Runs the workbench for one page, without a shell, and leaves nothing behind.

    Args:
        argv: program and arguments.
        write_bytes: sends to the page.
        write_str: likewise.
        close: closes the page's connection.
        download_manager: of the server.
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
        # Behind a tunnel each frame costs bytes; it asks for 60 a second.
        return {
            **super()._build_environment(width, height),
            "TEXTUAL_FPS": terminal.FPS_SSH,
        }

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # A session of its own: Ctrl-C in the server's terminal is the server's.
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
        """Pass on what the workbench draws until it ends, then close the page's connection."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        process, self._process = self._process, None
        if process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        await self.send_meta({"type": "quit"})
        try:
            await asyncio.wait_for(process.wait(), PATIENCE_S)
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
            return  # it has ended just now
