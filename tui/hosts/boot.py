"""The first words to a Python on a host: fetch our modules over standard input and run one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.hosts.archive import FALLBACK

FIRST_LINE = 'exec(eval(open(0,"rb",0,closefd=False).readline()))'
"""What the host's Python is given with ``-c``: run the text whose ``repr`` is the first line.

Unbuffered, it reads no byte beyond that line. It has no quote, newline or exclamation mark that
any shell would change within single quotes.
"""
OLDEST = (3, 8)
"""The oldest Python that our children run on."""
OLDEST_FOR_RUNS = (3, 10)
"""The oldest Python that the runner runs on."""
TOO_OLD = 66
"""Exit status of a Python that is older."""
_LOADER = """\
import os, sys
if sys.version_info < {oldest}:
    sys.stderr.write("Python %d.%d is too old, {needed} or newer is needed" % sys.version_info[:2])
    sys.exit({too_old})
data = b""
while len(data) < {size}:
    chunk = os.read(0, {size} - len(data))
    if not chunk:
        sys.exit(1)
    data += chunk
try:
    memory = os.memfd_create("gpu-workbench")
except (AttributeError, OSError):
    import tempfile
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        memory = os.dup(file.fileno())
with open(memory, "wb", closefd=False) as file:
    file.write(data)
del data
# Not /proc/self: processes that this one starts import from it, too.
archive = "/proc/%d/fd/%d" % (os.getpid(), memory)
# The current folder, which comes first unless Python is isolated.
sys.path[:] = [folder for folder in sys.path if folder]
sys.path.insert(0, archive)
sys.path.append(archive + "/{fallback}")
sys.argv = {argv}
from gpu_workbench_entry import call_main
sys.exit(call_main(sys.argv.pop(1)))
"""
PYTHONS = (
    "$VIRTUAL_ENV/bin/python",
    "$CONDA_PREFIX/bin/python",
    "python3",
    "python",
    "$HOME/.venv/bin/python",
    "$HOME/venv/bin/python",
    "$HOME/miniconda3/bin/python",
    "$HOME/miniforge3/bin/python",
    "/opt/venv/bin/python",
    "/opt/conda/bin/python",
)
"""The Pythons of a host that are tried, in words of sh: an active environment's, those that the
shell finds, then the usual folders of environments."""
EACH_PYTHON = "".join(
    (
        ': "${VIRTUAL_ENV:=/nowhere}" "${CONDA_PREFIX:=/nowhere}"\n',
        'for found in "$@"',
        *(f' \\\n  "{python}"' for python in PYTHONS),
        "\ndo\n",
    )
)
"""Beginning of a script of sh: a loop over its arguments and :data:`PYTHONS`, in ``found``."""
_FIND_TORCH = f"""\
{EACH_PYTHON}\
  if "$found" -c 'import sys; del sys.path[0]; from importlib.util import find_spec
sys.exit(find_spec("torch") is None)' </dev/null >/dev/null 2>&1
  then exec "$found" -c "$0"
  fi
done
exec python3 -c "$0"
"""
"""Script of sh that starts the first Python that has torch, or else ``python3``, which says so."""


def boot_command(python: str | None = None) -> tuple[str, ...]:
    """Return the command that waits, on the host, for :func:`preamble` on its standard input.

    It is isolated (``-I``): no file in the current folder, no variable and nothing of the user's
    site-packages comes before our modules.

    Args:
        python: name or path of a Python there; ``None`` for ``python3``.
    """
    return (python or "python3", "-I", "-c", FIRST_LINE)


def torch_command(
    python: str | None = None, variables: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the command that waits for :func:`preamble` in a Python that has torch.

    It is not isolated, because torch may be in the user's own site-packages.

    Args:
        python: name or path of a Python there; ``None`` for the first that has torch: that of an
            active environment, ``python3``, ``python``, then the usual folders of environments.
        variables: environment variables to set.
    """
    assigned = tuple(f"{name}={value}" for name, value in (variables or {}).items())
    chosen = (python, "-c", FIRST_LINE) if python else ("sh", "-c", _FIND_TORCH, FIRST_LINE)
    return ("env", *assigned, *chosen)


def preamble(
    archive: bytes,
    module: str,
    arguments: Sequence[str] = (),
    oldest: tuple[int, int] = OLDEST,
) -> bytes:
    """Return what goes down the pipe before the first request.

    Args:
        archive: zip file of our modules.
        module: whose ``main`` runs.
        arguments: for its ``sys.argv``.
        oldest: the oldest Python that the module runs on.
    """
    loader = _LOADER.format(
        oldest=oldest,
        needed=".".join(map(str, oldest)),
        too_old=TOO_OLD,
        size=len(archive),
        fallback=FALLBACK,
        argv=["gpu-workbench", module, *arguments],
    )
    return repr(loader).encode("ascii", "backslashreplace") + b"\n" + archive
