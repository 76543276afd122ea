"""``serve``: the workbench in a browser on this machine, through a tunnel on the user's."""

from __future__ import annotations

import asyncio
import getpass
import signal
import socket
import sys
from typing import TYPE_CHECKING

from tui.cli.arguments import UsageError

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments
    from tui.web.site import Site


def serve(arguments: Arguments) -> int:
    """Serve until a signal ends it; returns the exit code.

    Raises:
        UsageError: textual-serve is not installed, or the port cannot be had.
    """
    try:
        from tui.web.site import Site
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serve needs textual-serve (there is no {error.name}):"
            " pip install 'gpu-workbench[serve]'"
        ) from error
    from tui.web.start import command

    return asyncio.run(_serve(Site(command(arguments.served), arguments.port)))


async def _serve(site: Site) -> int:
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            continue  # as nohup wants it
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        port = await site.start()
    except OSError as error:
        raise UsageError(
            f"--port {site.port}: {error.strerror}; give another, or 0 for any that is free"
        ) from error
    sys.stdout.write(how_to_get_there(port, site.path))
    sys.stdout.flush()
    code = await ended
    await site.stop()
    return code


def how_to_get_there(port: int, path: str) -> str:
    """What to type on the machine with the browser, and what to open there.

    Args:
        port: that is listened on.
        path: of the page.
    """
    login = f"{getpass.getuser()}@{socket.gethostname()}"
    return (
        f"on your machine:  ssh -N -L {port}:127.0.0.1:{port} {login}\n"
        f"in its browser:   http://localhost:{port}{path}\n"
        "Whoever has this address can do there what you can here. Ctrl-C ends it.\n"
    )
