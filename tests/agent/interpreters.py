"""The Python versions on this machine, and the ways to start each of them."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tui.watch.runs.start import variables

VERSIONS = tuple(f"3.{minor}" for minor in range(8, 15))
QUIET = ("PYTHONPATH", "PYTHONSTARTUP", "COVERAGE_PROCESS_START")


@functools.cache
def others() -> dict[str, str]:
    """Return the paths of other working versions than the tests' own, by version."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {}
    for version in VERSIONS:
        near = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        path = str(near[-1]) if near else shutil.which(f"python{version}")
        if version != own and path is not None:
            check = subprocess.run([path, "-c", ""], capture_output=True, check=False)
            if check.returncode == 0:
                found[version] = path
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """A way to start Python: its arguments, and its standard input."""

    name: str
    words: tuple[str, ...]
    stdin: str = ""
    signal: int | None = None
    """Signal to send after the first line of output."""


def write_programs(folder: Path) -> None:
    """Write the programs that the ways start."""
    script = "import sys, pprint\nprint(sys.argv[1:], __name__, __file__, sys.path, sys.flags)\n"
    (folder / "script.py").write_text(script + "print('err', file=sys.stderr)\n")
    (folder / "broken.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    (folder / "syntax.py").write_text("def f(:\n")
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nprint(__name__, __package__, sys.path)\n")
    application = folder / "application"
    application.mkdir()
    (application / "__main__.py").write_text("import sys\nprint(__name__, sys.path)\n")


# The signal's position is invisible: the one line has no source.
WAITS = (
    "exec(compile('import time; print(\"ready\", flush=True); time.sleep(60)', 'waits', 'exec'))"
)
HOOKS = (
    "import sys, threading\n"
    "print(threading.active_count(), sys.excepthook, threading.excepthook, sys.gettrace())\n"
    "print(sorted(n for n in sys.modules if n != 'sitecustomize'), len(sys.path_hooks))"
)
WAYS = (
    Way("script", ("script.py", "a", "--b")),
    Way("module", ("-m", "package", "a")),
    Way("folder", ("application",)),
    Way("code", ("-c", "import sys; print(sys.argv, sys.path)")),
    Way("standard input", ("-",), "import sys\nprint(sys.argv, sys.path, __name__)\n"),
    Way("isolated", ("-I", "script.py")),
    Way("no environment", ("-E", "script.py")),
    # Nothing of ``site`` runs, so nothing removes the folder from the path either.
    Way("no site", ("-S", "broken.py")),
    Way("no user site", ("-s", "script.py")),
    Way("no bytecode", ("-B", "script.py")),
    Way("optimised", ("-OO", "script.py")),
    Way("unbuffered", ("-u", "script.py")),
    Way("warnings", ("-W", "error", "-b", "-X", "dev", "script.py")),
    Way("exit code", ("-c", "import sys; sys.exit(7)")),
    Way("exit text", ("-c", "raise SystemExit('no more')")),
    Way("exception", ("broken.py",)),
    Way("wrong syntax", ("syntax.py",)),
    Way("os._exit", ("-c", "import os; os._exit(3)")),
    Way("abort", ("-c", "import os; os.abort()")),
    Way("SIGTERM", ("-c", WAITS), signal=signal.SIGTERM),
    Way("SIGINT", ("-c", WAITS), signal=signal.SIGINT),
    Way("no such file", ("nothing.py",)),
    Way("hooks and modules", ("-c", HOOKS)),
    Way(
        "children",
        (
            "-c",
            "import subprocess, sys; subprocess.run([sys.executable, 'script.py'])\n"
            "subprocess.run([sys.executable, 'broken.py'], env={})",
        ),
    ),
)


def environment(
    folder: Path, *, watched: bool, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a program with or without the agent, otherwise the same."""
    plain = {name: value for name, value in os.environ.items() if name not in QUIET}
    plain |= {"PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
    return {**plain, **variables(folder / "run", None, plain)} if watched else plain


def outcome(
    python: str, way: Way, folder: Path, variables: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Return exit code and both streams."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(way.stdin.encode())
        stdin.seek(0)
        process = subprocess.Popen(
            [python, *way.words],
            cwd=folder,
            env=dict(variables),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert process.stdout is not None
    first = b""
    if way.signal is not None:
        first = process.stdout.readline()
        process.send_signal(way.signal)
    out, errors = process.communicate(timeout=60)
    return process.returncode, first + out, errors
