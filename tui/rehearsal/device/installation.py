"""The user's torch: its version, its CUDA version and its folder, without importing it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OLDEST, NEWEST = (2, 10), (2, 15)
"""The versions of torch whose imports from CUDA's libraries the simulated GPU provides."""
OLDEST_CUDA, NEWEST_CUDA = (12, 6), (13, 2)
"""The versions of CUDA for which torch is built in these versions."""
ANSWER_TIMEOUT_S = 60.0

# An empty first entry is the current folder, where a file of the user's may be named torch.py.
_QUESTION = """
import json, sys
sys.path[:] = [folder for folder in sys.path if folder]
from importlib.util import find_spec
spec = find_spec("torch")
print(json.dumps(spec.origin if spec else None))
"""


class CannotSimulateError(Exception):
    """No simulated GPU is available here; the text is one line: what, why, what to do."""


@dataclass(frozen=True, slots=True)
class TorchInstallation:
    """An installed CUDA build of torch."""

    python: Path
    """The interpreter that imports it."""
    folder: Path
    version: str
    """Such as ``2.13.0+cu130``."""
    cuda: str
    """The version of CUDA that it is built for, such as ``13.0``."""
    cudnn_number: int = 92000
    """The version of cuDNN that it requires, as cuDNN's headers give it: 92000 for 9.20.0."""

    @property
    def cuda_number(self) -> int:
        """Return the version of CUDA as its headers give it: 13000 for 13.0."""
        major, minor = _numbers(self.cuda)
        return major * 1000 + minor * 10


def find_torch(python: str) -> TorchInstallation:
    """Return the torch that an interpreter imports.

    A child process runs the interpreter and finds torch without importing it.

    Args:
        python: a path, or a name on ``PATH``.

    Raises:
        CannotSimulateError: the interpreter does not run; it has no torch; its torch is a build
            without CUDA, or for a version of torch or CUDA that cannot be simulated.
    """
    executable = shutil.which(python)
    if executable is None:
        raise CannotSimulateError(f"{python} is not a program; name a Python that has torch")
    origin = _torch_origin(executable)
    if origin is None:
        raise CannotSimulateError(f"{python} has no torch; install its CUDA build there")
    return read_torch(Path(executable), Path(origin).parent)


def _torch_origin(python: str) -> str | None:
    try:
        done = subprocess.run(
            [python, "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotSimulateError(f"{python} does not run: {_first_line(str(error))}") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise CannotSimulateError(
            f"{python} does not run as a Python: {_last_line(done.stderr) or 'it printed nothing'}"
        )
    try:
        answer = json.loads(lines[-1])
    except ValueError:
        answer = 0
    if answer is not None and not isinstance(answer, str):
        raise CannotSimulateError(f"{python} is not a Python: it printed {lines[-1][:80]!r}")
    return answer


def read_torch(python: Path, folder: Path) -> TorchInstallation:
    """Return the torch in a folder, as its file ``version.py`` describes it.

    Raises:
        CannotSimulateError: as for :func:`find_torch`.
    """
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError as error:
        raise CannotSimulateError(
            f"the torch in {folder} is incomplete: {error.strerror}: version.py"
        ) from error
    version, cuda = _value(text, "__version__"), _value(text, "cuda")
    if version is None:
        raise CannotSimulateError(f"the torch in {folder} does not say its version")
    if cuda is None or not (folder / "lib" / "libtorch_cuda.so").exists():
        raise CannotSimulateError(
            f"torch {version} in {python} is a build without CUDA; install a CUDA build of torch "
            f"{_text(OLDEST)} to {_text(NEWEST)} (it needs no GPU)"
        )
    _check("torch", version, OLDEST, NEWEST)
    _check("CUDA", cuda, OLDEST_CUDA, NEWEST_CUDA)
    cudnn = _required_cudnn(folder.parent)
    if cudnn is None:
        return TorchInstallation(python, folder, version, cuda)
    return TorchInstallation(python, folder, version, cuda, cudnn)


def _required_cudnn(site: Path) -> int | None:
    """Return the version of cuDNN that the installed torch requires; ``None`` if it names none.

    torch refuses a cuDNN that is older than the one that it was compiled with.
    """
    for path in site.glob("torch-*.dist-info/METADATA"):
        text = path.read_text(encoding="utf-8", errors="replace")
        match = re.search(
            r"^Requires-Dist: nvidia-cudnn-\S+?==(\d+)\.(\d+)\.(\d+)", text, re.MULTILINE
        )
        if match is not None:
            major, minor, patch = (int(group) for group in match.groups())
            return major * 10_000 + minor * 100 + patch
    return None


def _check(name: str, version: str, oldest: tuple[int, int], newest: tuple[int, int]) -> None:
    numbers = _numbers(version)
    if oldest <= numbers <= newest:
        return
    direction = "older" if numbers < oldest else "newer"
    subject = "the torch here is for CUDA" if name == "CUDA" else "torch"
    raise CannotSimulateError(
        f"{subject} {version}, {direction} than the simulated GPU supports: {name} "
        f"{_text(oldest)} to {_text(newest)}"
    )


def _value(text: str, name: str) -> str | None:
    """Return a string assigned in ``version.py``, such as ``cuda: Optional[str] = '13.0'``."""
    match = re.search(rf"^{name}\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return match[1] if match else None


def _numbers(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise CannotSimulateError(f"{version!r} is not a version of torch or CUDA")
    return int(match[1]), int(match[2])


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
