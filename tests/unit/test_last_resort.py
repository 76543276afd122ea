"""When a terminal takes nothing any more."""

from __future__ import annotations

import os
import pty

from tui.terminal.last_resort import stalled


def test_a_terminal_takes_bytes_until_it_is_full_or_gone() -> None:
    master, slave = pty.openpty()
    try:
        assert not stalled(slave)
        os.set_blocking(slave, False)
        try:
            while True:
                os.write(slave, b"x" * 4096)
        except BlockingIOError:
            assert stalled(slave)
        os.read(master, 65_536)
        assert not stalled(slave)
        os.close(master)
        master = -1
        assert stalled(slave)
    finally:
        os.close(slave)
        if master >= 0:
            os.close(master)
