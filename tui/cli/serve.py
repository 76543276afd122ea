"""``gpu-workbench serve``: the workbench in a browser, through a tunnel on the user's machine."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.cli.program import parse
from tui.core.child.launch import own_command
from tui.kit.command_line.options import Subcommand
from tui.kit.command_line.output import UsageError, print_text
from tui.kit.terminal.ending import handle_signals

if TYPE_CHECKING:
    from tui.cli.site import WebSite
    from tui.kit.command_line.options import Parser

SHOWN = ("", "replay")
"""Commands that have a screen, by name; the empty one is the workbench."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The port to listen on, and the arguments of the workbench."""

    port: int = 8000
    """The port; 0 for any free one."""
    rest: Sequence[str] = ()
    """The arguments of the workbench that is shown."""


def add_options(parser: Parser) -> None:
    """Add the options of ``serve``; all others belong to the workbench."""
    parser.add_argument("--host", type=parse_address, help=argparse.SUPPRESS)
    parser.add_argument(
        "--port", type=parse_port, metavar="N", help="port to listen on; 0 for any free one"
    )


def parse_address(text: str) -> str:
    """Return the only address that it listens on, given by one of its names.

    Raises:
        UsageError: the text names another address.
    """
    if text not in ("127.0.0.1", "localhost"):
        raise UsageError(
            f"--host {text}: serve listens on 127.0.0.1 only; reach it from elsewhere"
            " through the SSH tunnel that it prints"
        )
    return text


def parse_port(text: str) -> int:
    """Parse the number of a port.

    Raises:
        UsageError: the text is no port number.
    """
    if not (text.isdecimal() and int(text) < 2**16):
        raise UsageError(f"--port {text}: give a number up to 65535, 0 for a free one")
    return int(text)


def serve(options: ServeOptions) -> int:
    """Serve until a signal ends it; returns the exit code.

    Raises:
        UsageError: it cannot show the requested screen, textual-serve is not installed, or
            the port is not available.
    """
    _check_shown(options.rest)
    # Imported here: the server needs an extra of the package to be installed.
    try:
        from tui.cli.site import WebSite
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serve needs textual-serve (there is no {error.name}):"
            " pip install 'gpu-workbench[serve]'"
        ) from error
    visit = own_command("tui.cli.visit", str(os.getpid()), *options.rest)
    return asyncio.run(_serve(WebSite(visit, options.port)))


def _check_shown(arguments: Sequence[str]) -> None:
    """Check that a visit can show the screen that these arguments of the workbench request.

    Raises:
        UsageError: it cannot.
    """
    shown = parse(arguments)
    if shown.name not in SHOWN:
        raise UsageError(f"serve {' '.join(arguments)}: it shows the workbench or a replay")
    if shown.values.get("record"):
        raise UsageError("serve --record: each visit is a run of its own; record in a terminal")


async def _serve(site: WebSite) -> int:
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(128 + number)

    handle_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), end)
    try:
        listening = await site.start()
    except OSError as error:
        raise UsageError(
            f"--port {site.port}: {error.strerror}; give another, or 0 for a free one"
        ) from error
    print_text(how_to_get_there(listening, site.path))
    code = await ended
    await site.stop()
    return code


def how_to_get_there(port: int, path: str) -> str:
    """Return the commands to type on the machine with the browser, and the address to open.

    Args:
        port: the port that the server listens on.
        path: path of the page.
    """
    login = f"{getpass.getuser()}@{socket.gethostname()}"
    return (
        f"on your machine:  ssh -N -L {port}:127.0.0.1:{port} {login}\n"
        f"in its browser:   http://localhost:{port}{path}\n"
        "Whoever has this address can do there what you can here. Ctrl-C ends it.\n"
    )


SUBCOMMAND = Subcommand(
    ServeOptions,
    add_options,
    serve,
    description="Show the workbench in a browser on this machine, through an SSH tunnel on yours. "
    "Every other argument goes to the workbench: options such as --readonly, or replay FILE.",
    usage_when_first="[--port N] [options of the workbench]",
)
