"""The first words to a Python on a host: fetch our modules over standard input and run one."""

from __future__ import annotations

from collections.abc import Sequence

from tui.hosts.archive import FALLBACK

FIRST_LINE = 'exec(eval(open(0,"rb",0,closefd=False).readline()))'
"""What the host's Python is given with ``-c``: run the text whose ``repr`` is the first line.

Unbuffered, it reads no byte beyond that line. It has no quote, newline or exclamation mark that
any shell would change within single quotes.
"""
OLDEST = (3, 8)
"""The oldest Python that our children run on."""
TOO_OLD = 66
"""Exit status of a Python that is older."""
_LOADER = """\
import os, sys
if sys.version_info < {oldest}:
    sys.stderr.write("Python %d.%d is too old" % sys.version_info[:2])
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
archive = "/proc/self/fd/%d" % memory
sys.path.insert(0, archive)
sys.path.append(archive + "/{fallback}")
sys.argv = {argv}
from gpu_workbench_entry import call_main
sys.exit(call_main(sys.argv.pop(1)))
"""


def boot_command(python: str = "python3") -> tuple[str, ...]:
    """Return the command that waits, on the host, for :func:`preamble` on its standard input.

    It is isolated (``-I``): no file in the current folder, no variable and nothing of the user's
    site-packages comes before our modules.

    Args:
        python: name or path of a Python there.
    """
    return (python, "-I", "-c", FIRST_LINE)


def preamble(archive: bytes, module: str, arguments: Sequence[str] = ()) -> bytes:
    """Return what goes down the pipe before the first request.

    Args:
        archive: zip file of our modules.
        module: whose ``main`` runs.
        arguments: for its ``sys.argv``.
    """
    loader = _LOADER.format(
        oldest=OLDEST,
        too_old=TOO_OLD,
        size=len(archive),
        fallback=FALLBACK,
        argv=["gpu-workbench", module, *arguments],
    )
    return repr(loader).encode("ascii", "backslashreplace") + b"\n" + archive
