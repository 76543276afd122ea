"""Start the process of a child. No asyncio: the program does this before it imports its screens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

Launched = subprocess.Popen[bytes]


def launch(
    argv: Sequence[str],
    variables: Mapping[str, str] | None = None,
    folder: str | None = None,
    inherit: Sequence[int] = (),
) -> Launched:
    """Start it in a session of its own, with no descriptor of the terminal.

    What is launched is handed to a :class:`tui.child.process.ChildProcess`, which listens to it.
    Where the program ends before that, the child finds its standard input closed, and ends.

    Args:
        argv: program and arguments.
        variables: environment variables on top of ours.
        folder: where it runs; ``None`` for where we are.
        inherit: descriptors that it gets under their own numbers.

    Raises:
        OSError: it cannot be started; the text says why.
    """
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(variables or {})},
        cwd=folder,
        start_new_session=True,
        pass_fds=tuple(inherit),
    )
