"""Build the simulated GPU's libraries for one installation of torch.

torch's CUDA build is linked to some fifteen libraries of NVIDIA's, four gigabytes in total. One
library replaces them here. The C sources implement some functions; for every other function that
torch imports, a stub is generated. The folder of a build contains:

- ``libcuda.so.1``: all functions, with the symbol versions that torch asks for;
- ``libnvidia-ml.so.1``: NVML over the same devices;
- an empty library for each other name that torch is linked to, such as ``libcudart.so.13``, which
  is linked to the first; its file is called ``stand-in-cudart.so.13``;
- ``libsimulated-gpu.so``, linked to all of them. A process that loads it before its own libraries
  finds no others under these names, wherever torch says that they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tui.rehearsal.device import stubs
from tui.rehearsal.device.compiler import Compiler
from tui.rehearsal.device.imports import defined_functions, read_imports
from tui.rehearsal.device.installation import CannotSimulateError, TorchInstallation

SOURCES = (
    "state",
    "device",
    "clock",
    "memory",
    "stores",
    "blas",
    "dnn",
    "rnn",
    "fft",
    "nccl",
    "modules",
)
NVML_SOURCES = ("state", "nvml")
PRELOADED_SOURCE = "exit"
"""What replaces functions of libc, which only the preloaded library precedes."""
OF_OTHER_PACKAGES = {"cudaMallocManaged", "cudaMemPrefetchAsync"}
"""Functions of CUDA's runtime that bitsandbytes imports, and torch does not."""
HERE = Path(__file__).parent
# ziglang's compiler would add checks of undefined behaviour, whose library is not linked.
COMPILE = ("-std=gnu11", "-O1", "-g", "-fPIC", "-fno-sanitize=undefined", "-c")
MAIN = "libcuda.so.1"
NVML = "libnvidia-ml.so.1"
PRELOAD = "libsimulated-gpu.so"


def sources_hash() -> str:
    """Return a hash of the sources of the libraries and of the code that builds them."""
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("*.[ch]"), *HERE.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build(torch: TorchInstallation, compiler: Compiler, into: Path, parts: Path) -> None:
    """Build the libraries.

    Args:
        torch: the installation whose imports they provide.
        compiler: the C compiler.
        into: an empty folder, for the libraries.
        parts: another one, for intermediate files; nothing in it is needed afterwards.

    Raises:
        CannotSimulateError: torch imports a function that is unknown here, torch's libraries
            cannot be read, or the compiler fails.
        OSError: a folder cannot be written.
    """
    imports = read_imports(torch.folder)
    objects: dict[str, Path] = {}
    for name in dict.fromkeys((*SOURCES, *NVML_SOURCES, PRELOADED_SOURCE)):
        objects[name] = parts / f"{name}.o"
        defined = f"-DCUDA_VERSION={torch.cuda_number}", f"-DCUDNN_VERSION={torch.cudnn_number}"
        compiler.run([*COMPILE, *defined, HERE / f"{name}.c", "-o", objects[name]], parts)
    simulated = [objects[name] for name in SOURCES]
    functions = imports.functions | dict.fromkeys(
        OF_OTHER_PACKAGES - imports.functions.keys(), imports.functions.get("cudaMalloc", "")
    )
    missing = functions.keys() - stubs.DESCRIBE_ERRORS
    for path in simulated:
        missing -= defined_functions(path)
    # ziglang's compiler links nothing without an object file, so there is an empty one.
    for name, text in {"stubs": _stubs(sorted(missing), torch), "empty": ""}.items():
        generated, objects[name] = parts / f"{name}.c", parts / f"{name}.o"
        generated.write_text(text, encoding="ascii")
        compiler.run([*COMPILE, generated, "-o", objects[name]], parts)

    def link(
        name: str, file: Path, inputs: Sequence[Path], versions: Mapping[str, Sequence[str]]
    ) -> None:
        options = [f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]
        if versions:
            script = parts / f"{name}.versions"
            script.write_text(_version_script(versions), encoding="ascii")
            options.append(f"-Wl,--version-script={script}")
        compiler.run(["-shared", "-o", file, *options, *inputs, "-lpthread", "-ldl"], parts)

    link(MAIN, into / MAIN, [*simulated, objects["stubs"]], _by_version(functions))
    link(NVML, into / NVML, [objects[name] for name in NVML_SOURCES], {})
    names = sorted(imports.libraries - {MAIN, NVML})
    for name in names:
        # If torch finds "libcudart.so" in /proc/self/maps, which shows the names of files, it loads
        # NVIDIA's other libraries by their paths (_load_global_deps in torch/__init__.py).
        file = into / f"stand-in-{name.removeprefix('lib')}"
        versions = dict.fromkeys(sorted(imports.versions.get(name, ())), ())
        link(name, file, [objects["empty"], into / MAIN], versions)
        (into / name).symlink_to(file.name)
    linked = [into / name for name in (MAIN, NVML, *names)]
    link(PRELOAD, into / PRELOAD, [objects[PRELOADED_SOURCE], *linked], {})


def _stubs(missing: Sequence[str], torch: TorchInstallation) -> str:
    try:
        bodies = [stubs.stub(name) for name in missing]
    except stubs.UnknownFunctionError as error:
        raise CannotSimulateError(f"torch {torch.version} cannot be simulated: {error}") from error
    errors = stubs.errors((HERE / "cuda_types.h").read_text(encoding="utf-8"))
    return "\n".join([stubs.DECLARATIONS, errors, *bodies, ""])


def _by_version(functions: Mapping[str, str]) -> dict[str, list[str]]:
    by_version: dict[str, list[str]] = {}
    for name, version in sorted(functions.items()):
        if version:
            by_version.setdefault(version, []).append(name)
    return by_version


def _version_script(versions: Mapping[str, Sequence[str]]) -> str:
    """Return the linker's script that gives functions their versions.

    A function such as ``cudaMalloc@libcudart.so.13`` is found only under its version. A version
    without functions is one that the loader wants to find in a library of this name.
    """
    return "".join(
        f"{version} {{ {'global: ' if names else ''}{' '.join(f'{name};' for name in names)} }};\n"
        for version, names in versions.items()
    )
