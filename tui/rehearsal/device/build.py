"""Build the simulated GPU's libraries for one installation of torch.

torch's CUDA build needs libraries from ``nvidia-*`` packages, some four gigabytes in total. One
library under all of their names replaces them here. The C sources implement some functions; for
every other function that torch imports, a stub is generated.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tui.rehearsal.device import stubs

SOURCES = ("state", "device", "clock", "memory", "blas", "dnn", "nccl")
NVML_SOURCES = ("state", "nvml")
HERE = Path(__file__).parent
FLAGS = ["-std=gnu11", "-O1", "-g", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]

NVIDIAS = re.compile(
    r"^(__cuda|cu[A-Z]|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvshmem)"
)
"""Names to look for in NVIDIA's libraries."""


class CannotBuildError(Exception):
    """The simulated GPU cannot be built here; the text names the missing part."""


def folder_of_torch() -> Path:
    """Return the folder where torch is installed, without importing it.

    Raises:
        CannotBuildError: torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise CannotBuildError("torch is not installed")
    return Path(spec.origin).parent


def _output(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CannotBuildError(f"{Path(command[0]).name} failed:\n{done.stderr}")
    return done.stdout


def _libraries(torch: Path) -> list[Path]:
    return sorted(path for path in (torch / "lib").glob("*.so*") if path.is_file())


def _needed(libraries: Iterable[Path]) -> set[str]:
    """Return the names of NVIDIA's libraries that torch's are linked to."""
    names: set[str] = set()
    for library in libraries:
        names |= set(
            re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]", _output("readelf", "-d", library))
        )
    return names


def _wanted(libraries: Iterable[Path]) -> dict[str, str]:
    """Return each function that torch imports from NVIDIA's libraries, with its version or none."""
    found: dict[str, str] = {}
    for library in libraries:
        for line in _output("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if NVIDIAS.match(name):
                found[name] = version.lstrip("@")
    return found


def _defined(objects: Iterable[Path]) -> set[str]:
    text = "".join(_output("nm", "--defined-only", path) for path in objects)
    return set(re.findall(r" T (\S+)", text))


def _version_script(wanted: dict[str, str]) -> str:
    """Return the version script for torch's imports, such as ``cudaMalloc@libcudart.so.13``."""
    by_version: dict[str, list[str]] = {}
    for name, version in sorted(wanted.items()):
        if version:
            by_version.setdefault(version, []).append(name)
    return "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};\n"
        for version, names in by_version.items()
    )


def fingerprint(torch: Path) -> str:
    """Return a hash of a build's inputs: these sources and the version of torch."""
    digest = hashlib.sha256((torch / "version.py").read_bytes())
    for path in sorted([*HERE.glob("*.[ch]"), Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build(torch: Path, headers: Path, into: Path) -> None:
    """Build the libraries into a folder, under the names that torch's libraries import.

    Raises:
        CannotBuildError: a compiler, binutils or a header is missing, or the C does not compile.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not shutil.which("nm") or not shutil.which("readelf"):
        raise CannotBuildError("the simulated GPU needs a C compiler and binutils")
    if not (headers / "cuda_runtime_api.h").exists():
        raise CannotBuildError(f"CUDA's headers are not in {headers}")
    libraries = _libraries(torch)
    wanted = _wanted(libraries)
    into.mkdir(parents=True, exist_ok=True)
    objects: dict[str, Path] = {}
    for name in dict.fromkeys((*SOURCES, *NVML_SOURCES)):
        objects[name] = into / f"{name}.o"
        _output(compiler, *FLAGS, f"-I{headers}", "-c", HERE / f"{name}.c", "-o", objects[name])
    cuda = [objects[name] for name in SOURCES]
    missing = sorted(set(wanted) - _defined(cuda) - stubs.IN_WORDS)
    try:
        bodies = [stubs.stub(name) for name in missing]
    except stubs.UnknownFunctionError as error:
        raise CannotBuildError(str(error)) from error
    generated = into / "stubs.c"
    errors = stubs.errors((headers / "driver_types.h").read_text(encoding="utf-8"))
    text = "\n".join([stubs.DECLARATIONS, errors, *bodies])
    generated.write_text(text + "\n", encoding="ascii")
    _output(compiler, "-std=gnu11", "-O1", "-fPIC", "-c", generated, "-o", into / "stubs.o")
    script = into / "versions"
    script.write_text(_version_script(wanted), encoding="ascii")
    main = into / "libcuda.so.1"
    _link(compiler, main, [*cuda, into / "stubs.o", f"-Wl,--version-script={script}"])
    _link(compiler, into / "libnvidia-ml.so.1", [objects[name] for name in NVML_SOURCES])
    for name in _needed(libraries) - {main.name}:
        link = into / name
        link.unlink(missing_ok=True)
        link.symlink_to(main.name)


def _link(compiler: str, library: Path, parts: list[Path | str]) -> None:
    named = f"-Wl,-soname,{library.name}"
    _output(compiler, "-shared", "-o", library, named, *parts, "-lpthread", "-ldl")
