"""``python -m tests.simulated_gpu.environment FOLDER [TORCH]`` makes that of the simulated GPU.

It has what this environment has, but torch's CUDA build without the packages that bring CUDA's
libraries. 1.6 GB. ``TORCH`` is another version of torch than that of this environment, such as
``2.12.1``; a build for CUDA 13 (2.11 and later).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

LEFT_OUT = re.compile(r"nvidia-(?!ml-py)|cuda-|triton|torch=|ziglang=")
"""CUDA's libraries, another build of torch, and a compiler that these tests do not use."""
TOP = Path(__file__).parents[2]


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *arguments]
    subprocess.run(command, check=True)


def make(folder: Path, torch: str) -> None:
    """Make the environment in a new folder.

    Args:
        folder: the folder, which must not exist yet.
        torch: its version, without a local part such as ``+cpu``.

    Raises:
        subprocess.CalledProcessError: pip failed and has printed why.
    """
    frozen = [sys.executable, "-m", "pip", "freeze", "--exclude-editable"]
    listed = subprocess.run(frozen, check=True, capture_output=True, text=True).stdout.splitlines()
    with tempfile.TemporaryDirectory() as temporary:
        packages = Path(temporary) / "packages"
        kept = [line for line in listed if not LEFT_OUT.match(line)]
        packages.write_text("\n".join(kept), encoding="utf-8")
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        _pip(python, "-r", str(packages))
    _pip(python, "-e", str(TOP))
    # Three equals signs exclude a local build such as 2.13.0+cpu.
    _pip(python, f"torch==={torch}")
    (version_file,) = folder.glob("lib/python*/site-packages/torch/version.py")
    found = re.search(r"^cuda.*= '(\d+\.\d+)'", version_file.read_text("utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"the torch in {folder} is a build without CUDA")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    own = version("torch").partition("+")[0]
    make(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else own)
