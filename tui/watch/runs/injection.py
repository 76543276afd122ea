"""Injection of the agent into a running process.

``sys.remote_exec`` (PEP 768) injects an agent into a process that runs Python 3.14 or later: its
main thread executes a script between two bytecodes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.allocators.process_files import (
    GoneError,
    ProcessFiles,
    access_to,
    no_process,
    refusal,
)
from tui.core.text.commands import EXAMPLE
from tui.watch.runs.start import START_FOLDER

REMOTE_EXEC = (3, 14)
"""The first version of Python that has ``sys.remote_exec``."""
OLDEST = (3, 8)
"""The first version that the agent runs in."""
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?t?")
_VERSION_S, _INJECT_TIMEOUT_S = 20, 60
_START = '''exec("""
try:
    import importlib.util
    spec = importlib.util.spec_from_file_location("gpu_workbench_start", {file})
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    start.put_in({run}, {entries})
except KeyboardInterrupt:
    import _thread
    _thread.start_new_thread(_thread.interrupt_main, ())
except BaseException as error:
    with open({log}, "a") as file:
        file.write("%r\\\\n" % (error,))
""", {{"__name__": "gpu_workbench_start"}})
'''
"""Script for the target's ``__main__``, in which it leaves no name."""


class CannotInjectError(Exception):
    """An agent that cannot be injected; the text is why and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class InjectionTarget:
    """A Python process that the agent may be injected into."""

    pid: int
    program: str
    """Path of its interpreter."""
    version: tuple[int, int]
    command: tuple[str, ...]


def target_of(pid: int) -> InjectionTarget:
    """Inspect a process from outside; its interpreter is run once to learn its version.

    Raises:
        CannotInjectError: code cannot be injected into the process.
    """
    try:
        files = ProcessFiles(pid)
    except GoneError as error:
        raise CannotInjectError(no_process(pid, own_pids=False).reason) from error
    try:
        access = access_to(files)
        if access.user != os.geteuid():
            raise CannotInjectError(
                f"process {pid} is run by another user: give the command as that user, for whom "
                "the agent listens"
            )
        try:
            files.open_memory()
        except OSError as error:
            why = refusal(access)
            raise CannotInjectError(f"process {pid}: {why.reason}; {why.advice}") from error
        if files.link("ns/mnt") != str(Path("/proc/self/ns/mnt").readlink()):
            raise CannotInjectError(
                f"process {pid} sees other files, as in a container: give the command in there"
            )
        program = files.link("exe")
        words = files.read("cmdline").decode("utf-8", "replace").split("\0")[:-1]
    except (GoneError, OSError) as error:
        raise CannotInjectError(f"process {pid} has ended") from error
    finally:
        files.close()
    # Only a Python interpreter is run with -c.
    if _PYTHON.fullmatch(Path(program).name) is None or not Path(program).exists():
        raise CannotInjectError(f"process {pid} runs {program}, which is no Python interpreter")
    return InjectionTarget(pid, program, version_of(program), tuple(words))


def version_of(program: str) -> tuple[int, int]:
    """Return the version of a Python interpreter, as it reports itself.

    Raises:
        CannotInjectError: it does not report one.
    """
    code = "import sys; print('%d %d' % sys.version_info[:2])"
    command = [program, "-I", "-S", "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_VERSION_S
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise CannotInjectError(f"{program} does not report its version: {error}") from error
    return major, minor


def check_injection(target: InjectionTarget) -> None:
    """Check that code can be injected into a process.

    Raises:
        CannotInjectError: it cannot.
    """
    version = ".".join(map(str, target.version))
    if target.version < OLDEST:
        raise CannotInjectError(f"process {target.pid} runs Python {version}: 3.8 is the oldest")
    if target.version < REMOTE_EXEC:
        raise CannotInjectError(
            f"process {target.pid} runs Python {version}, which accepts no injected code (3.14 "
            f"does): start it with {EXAMPLE}"
        )


def injected_script(run: Path, entries: int) -> str:
    """Return the script for the process to execute.

    Args:
        run: folder of the run.
        entries: entries of torch's memory history; 0 for no history.
    """
    # Quoted twice: as JSON, whose strings are valid in Python, inside a Python string.
    quoted = {
        name: json.dumps(str(path)).replace("\\", "\\\\")
        for name, path in (
            ("file", START_FOLDER / "sitecustomize.py"),
            ("run", run),
            ("log", run / "agent-errors.log"),
        )
    }
    return _START.format(entries=entries, **quoted)


def remote_exec_command(target: InjectionTarget, path: Path) -> list[str]:
    """Return the command that injects the script; its Python must have the target's version."""
    code = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    return [target.program, "-I", "-S", "-c", code, str(target.pid), str(path)]


def inject(target: InjectionTarget, run: Path, entries: int) -> None:
    """Inject the agent's script; the process executes it when its main thread reaches it.

    Raises:
        CannotInjectError: the process did not accept it.
        OSError: the run's folder cannot be written to.
    """
    path = run / "inject.py"
    path.write_text(injected_script(run, entries), encoding="utf-8")
    _run_tool(remote_exec_command(target, path))


def _run_tool(command: Sequence[str]) -> None:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for this program, and must leave no half-made request
    )
    name = Path(command[0]).name
    try:
        output, _ = process.communicate(timeout=_INJECT_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise CannotInjectError(
            f"{name} took longer than {_INJECT_TIMEOUT_S} s and was ended"
        ) from error
    if process.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        raise CannotInjectError(f"{name}: {(lines or ['no message'])[-1]}")
