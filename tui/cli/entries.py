"""Where a command's work begins: each imports only what it needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments


def _take_settings(arguments: Arguments) -> None:
    """What a command without a screen takes of the settings; what is wrong is said on stderr."""
    from tui.cli.resolve import resolve, take_python

    chosen, problems = resolve(arguments)
    for problem in problems:
        sys.stderr.write(f"gpu-workbench: {problem}\n")
    take_python(arguments, chosen)


def open_workbench(arguments: Arguments) -> int:
    from tui.start.workbench import run_app

    return run_app(arguments)


def devices(arguments: Arguments) -> int:
    from tui.headless.devices import devices as command

    _take_settings(arguments)
    return command(arguments)


def list_catalogue(arguments: Arguments) -> int:
    from tui.headless.listing import listing

    _take_settings(arguments)
    return listing(arguments)


def run(arguments: Arguments) -> int:
    from tui.headless.run import run as command

    _take_settings(arguments)
    return command(arguments)


def compare(arguments: Arguments) -> int:
    from tui.headless.compare import compare as command

    _take_settings(arguments)
    return command(arguments)


def snapshot(arguments: Arguments) -> int:
    from tui.headless.snapshot import snapshot as command

    return command(arguments)


def doctor(arguments: Arguments) -> int:
    from tui.headless.doctor import doctor as command

    _take_settings(arguments)
    return command(arguments, arguments.bundle, with_names=arguments.with_names)


def replay(arguments: Arguments) -> int:
    from tui.start.replay import run_replay

    return run_replay(arguments)


def serve(arguments: Arguments) -> int:
    from tui.start.serve import serve as command

    return command(arguments)


def config(arguments: Arguments) -> int:
    from tui.headless.config import config as command

    return command(arguments)


def show_version(_arguments: Arguments) -> int:
    from importlib.metadata import version

    sys.stdout.write(f"gpu-workbench {version('gpu-workbench')}\n")
    return 0
