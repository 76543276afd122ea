"""A slow link for ssh: ``ProxyCommand python FOLDER/delayed.py %h %p MILLISECONDS``.

It delays the bytes of both directions by so many milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable


async def relay(
    reader: asyncio.StreamReader, write: Callable[[bytes], object], delay_s: float
) -> None:
    """Write each chunk ``delay_s`` seconds after it was read, until the reader's end."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def read() -> None:
        data = b"-"
        while data:
            data = await reader.read(65_536)
            waiting.put_nowait((loop.time() + delay_s, data))

    reading = asyncio.create_task(read())
    while True:
        due, data = await waiting.get()
        await asyncio.sleep(due - loop.time())
        if not data:
            break
        write(data)
    await reading


def write_out(data: bytes) -> None:
    """Write all bytes to standard output."""
    while data:
        data = data[os.write(1, data) :]


async def connect(host: str, port: int, delay_s: float) -> None:
    """Connect standard input and output to a server until either side closes."""
    incoming, outgoing = await asyncio.open_connection(host, port)
    typed = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(typed), sys.stdin
    )
    relays = (relay(typed, outgoing.write, delay_s), relay(incoming, write_out, delay_s))
    await asyncio.wait(map(asyncio.ensure_future, relays), return_when=asyncio.FIRST_COMPLETED)


if __name__ == "__main__":
    asyncio.run(connect(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000))
