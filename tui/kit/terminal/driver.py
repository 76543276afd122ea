"""Textual's driver for Linux terminals, which writes only what a frame changes."""

from __future__ import annotations

import os
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from tui.kit.terminal.frames import FrameReducer


class ReducingDriver(LinuxDriver):
    """Sends a terminal the cells of each frame that differ from what it shows."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Take the terminal of this process; the arguments are those of Textual's drivers."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._frames = FrameReducer()
        self._drawn_size: os.terminal_size | None = None

    def write(self, data: str) -> None:
        """Write a frame, or what stands between two."""
        size = self._read_size()
        if size != self._drawn_size:
            # A terminal of another size has moved or lost some of its cells.
            self._frames.forget()
            self._drawn_size = size
        super().write(self._frames.reduce(data))

    def _read_size(self) -> os.terminal_size | None:
        try:
            return os.get_terminal_size(self.fileno)
        except OSError:
            return None
