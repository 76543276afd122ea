"""One run of a workload's script, as a program of its own, for ``learn``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tui.core.child.runner import VARIABLES
from tui.core.text.numbers import seconds

LONGEST_S = 60.0
"""A script of the first steps takes a few seconds, most of them to import torch."""
ERROR_LINES = 8
"""Last lines of standard error that a failure shows."""
SHARED = {"PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": VARIABLES["CUDA_DEVICE_ORDER"]}
"""The script's GPUs have the order of the runner's, whose figures follow."""
HIDDEN_GPUS = {"CUDA_VISIBLE_DEVICES": ""}
"""For a lesson on the CPU alone: a script takes a GPU wherever torch sees one."""


@dataclass(frozen=True, slots=True)
class ScriptEnd:
    """What a script printed, and why it failed."""

    printed: tuple[str, ...]
    error: str = ""
    """Empty if it succeeded."""
    last_lines: tuple[str, ...] = ()
    """The end of its standard error, if it failed."""


async def run_script(
    python: str, name: str, script: str, *, gpu: bool, longest_s: float = LONGEST_S
) -> ScriptEnd:
    """Run a script to its end, and return what it printed.

    A cancel, like the time limit, ends the script with all processes that it started.

    Args:
        python: path of the Python that runs it.
        name: the workload's name, under which the script is saved.
        script: the text of the script.
        gpu: let it see the GPUs.
        longest_s: seconds after which it is stopped.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-workbench-learn-") as made:
        folder = Path(made)
        path, output, errors = (folder / f"{name}.{end}" for end in ("py", "out", "err"))
        path.write_text(script, encoding="utf-8")
        # Files, not pipes: what was printed before a time limit remains.
        with output.open("wb") as out, errors.open("wb") as err:
            try:
                process = await asyncio.create_subprocess_exec(
                    python,
                    str(path),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=folder,
                    env={**os.environ, **SHARED, **({} if gpu else HIDDEN_GPUS)},
                    start_new_session=True,
                )
            except OSError as failure:
                return ScriptEnd((), f"{python}: {failure.strerror}")
            error = ""
            try:
                code = await asyncio.wait_for(process.wait(), longest_s)
                error = f"exit code {code}" if code else ""
            except asyncio.TimeoutError:
                error = f"stopped after {seconds(longest_s)}"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        last = _read_lines(errors)[-ERROR_LINES:] if error else ()
        return ScriptEnd(_read_lines(output), error, last)


def _read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
