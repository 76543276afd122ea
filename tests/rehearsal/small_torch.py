"""A small stand-in for an installed torch: an ELF library that imports some of CUDA's functions.

It is installed beside a stand-in for NVIDIA's ``libcudart.so.13``, which its search path names, as
torch's does. Loading it shows whose ``cudaMalloc`` it has got.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tui.rehearsal.device.installation import TorchInstallation, read_torch

VERSION_FILE = "__version__ = '{version}'\ncuda: Optional[str] = {cuda}\n"
NVIDIA = "int cudaMalloc(void **at, unsigned long size) { return 999; }\n"
FUNCTIONS = ("cudaFree", "cudaMemset", "cudaMemcpy", "cudaGetDeviceCount", "cudaLaunchKernel")
NVIDIA += "".join(
    f"int {name}(void) {{ return 999; }}\n" for name in (*FUNCTIONS, "cublasDgemm_v2")
)
TORCH = """
int cudaMalloc(void **, unsigned long);
int cudaFree(void *);
int cudaMemset(void *, int, unsigned long);
int cudaMemcpy(void *, const void *, unsigned long, int);
int cudaGetDeviceCount(int *);
int cublasDgemm_v2(void);
struct shape { unsigned x, y, z; };
int cudaLaunchKernel(void *, struct shape, struct shape, void **, unsigned long, void *);
int allocate(void **at, unsigned long size) { return cudaMalloc(at, size); }
int set(void *at, int value, unsigned long size) { return cudaMemset(at, value, size); }
int copy(void *to, void *from, unsigned long size) { return cudaMemcpy(to, from, size, 4); }
int count(int *devices) { return cudaGetDeviceCount(devices); }
int release(void *at) { return cudaFree(at); }
int launch(void) {
    struct shape one = { 1, 1, 1 };
    return cudaLaunchKernel(0, one, one, 0, 0, 0);
}
int multiply(void) { return cublasDgemm_v2(); }
"""


def write_version(folder: Path, version: str, cuda: str | None) -> None:
    """Write what torch says of itself."""
    folder.mkdir(parents=True, exist_ok=True)
    text = VERSION_FILE.format(version=version, cuda=repr(cuda))
    (folder / "version.py").write_text(text, encoding="utf-8")


def install(site: Path, *, extra: str = "") -> TorchInstallation:
    """Compile and install the small torch in a folder of packages.

    Args:
        site: the folder.
        extra: more C for its library.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("it needs a C compiler named cc")
    folder, nvidia = site / "torch", site / "nvidia" / "cu13" / "lib"
    (folder / "lib").mkdir(parents=True)
    nvidia.mkdir(parents=True)
    write_version(folder, "2.13.0+cu130", "13.0")
    (folder / "__init__.py").write_text("raise SystemExit('torch was imported')", encoding="utf-8")
    source, versions = site / "source.c", site / "versions"
    versions.write_text("libcudart.so.13 { global: cu*; };", encoding="ascii")
    source.write_text(NVIDIA, encoding="ascii")
    flags = [compiler, "-shared", "-fPIC", "-w", str(source)]
    cudart = nvidia / "libcudart.so.13"
    named = ["-Wl,-soname,libcudart.so.13", f"-Wl,--version-script={versions}"]
    subprocess.run([*flags, *named, "-o", str(cudart)], check=True)
    source.write_text(TORCH + extra, encoding="ascii")
    searched = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib"]
    library = folder / "lib" / "libtorch_cuda.so"
    subprocess.run([*flags, str(cudart), *searched, "-o", str(library)], check=True)
    return read_torch(Path("python"), folder)
