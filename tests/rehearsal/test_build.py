"""The simulated GPU is built once, from what a torch imports; failures are one line each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal import small_torch
from tests.tiers import VARIANT, with_variants
from tui.rehearsal.device import build, prepare
from tui.rehearsal.device.compiler import find_compiler
from tui.rehearsal.device.imports import read_imports
from tui.rehearsal.device.installation import CannotSimulateError, TorchInstallation

BUILD = """
import sys
from pathlib import Path
from tui.rehearsal.device.installation import read_torch
from tui.rehearsal.device.prepare import build_once
print(build_once(read_torch(Path("python"), Path(sys.argv[1])), Path(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> TorchInstallation:
    return small_torch.install(tmp_path_factory.mktemp("site"))


def refusal(torch: TorchInstallation, cache: Path) -> str:
    with pytest.raises(CannotSimulateError) as caught:
        prepare.build_once(torch, cache)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


def fake_compiler(folder: Path, script: str) -> str:
    """Return a ``PATH`` on which ``cc`` is a script."""
    folder.mkdir()
    program = folder / "cc"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    return str(folder)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)


def test_what_a_torch_imports_is_read_from_its_files(torch: TorchInstallation) -> None:
    imports = read_imports(torch.folder)
    assert imports.libraries == {"libcudart.so.13"}
    assert imports.versions == {"libcudart.so.13": {"libcudart.so.13"}}
    assert imports.functions["cudaMalloc"] == "libcudart.so.13"
    assert imports.functions.keys() == {
        *small_torch.FUNCTIONS,
        "cudaMalloc",
        "cublasDgemm_v2",
    }


def test_a_library_that_is_no_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtorch.so").write_text("text", encoding="ascii")
    with pytest.raises(CannotSimulateError, match=r"libtorch\.so cannot be read: .*"):
        read_imports(tmp_path)


@VARIANT
def test_a_build_is_made_once_and_leaves_nothing_else(
    torch: TorchInstallation, tmp_path: Path
) -> None:
    cache = tmp_path / "a" / "cache"
    first = prepare.build_once(torch, cache)
    made = (first / build.MAIN).stat()
    assert prepare.build_once(torch, cache) == first
    assert (first / build.MAIN).stat() == made
    assert list(cache.iterdir()) == [first]
    files = {path.name for path in first.iterdir()}
    stand_in = {"libcudart.so.13", "stand-in-cudart.so.13"}
    assert files == {build.MAIN, build.NVML, build.PRELOAD, *stand_in}


@pytest.mark.slow
def test_another_version_of_torch_has_a_build_of_its_own(tmp_path: Path) -> None:
    torch = small_torch.install(tmp_path / "site")
    first = prepare.build_once(torch, tmp_path / "cache")
    small_torch.write_version(torch.folder, "2.12.0+cu128", "12.8")
    other = replace(torch, version="2.12.0+cu128", cuda="12.8")
    second = prepare.build_once(other, tmp_path / "cache")
    assert first != second
    assert set((tmp_path / "cache").iterdir()) == {first, second}


@pytest.mark.slow
def test_builds_at_the_same_time_end_as_one(torch: TorchInstallation, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", BUILD, str(torch.folder), str(cache)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = {process.communicate(timeout=100)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    (libraries,) = printed
    assert [str(path) for path in cache.iterdir()] == [libraries]


@pytest.mark.slow
def test_a_killed_build_is_removed_by_a_later_one(torch: TorchInstallation, tmp_path: Path) -> None:
    old, young = tmp_path / "building-old", tmp_path / "building-young"
    old.mkdir()
    young.mkdir()
    then = time.time() - 2 * prepare.ABANDONED_AFTER_S
    os.utime(old, (then, then))
    prepare.build_once(torch, tmp_path)
    assert not old.exists()
    assert young.exists()


def test_without_a_compiler_one_line_says_how_to_get_one(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_compiler(monkeypatch)
    assert refusal(torch, tmp_path) == (
        "the simulated GPU needs a C compiler; install one (apt install gcc), or the one of PyPI: "
        "pip install 'gpu-workbench[rehearse]'"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_a_compiler_an_earlier_build_serves(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = prepare.build_once(torch, tmp_path)
    without_compiler(monkeypatch)
    assert prepare.build_once(torch, tmp_path) == built


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo 'x.c:1: error: unknown type' >&2; exit 1", "x.c:1: error: unknown type"),
        ("echo 'cannot write x.o: No space left on device' >&2; exit 1", "No space left on device"),
        ("exit 4", "it ended with status 4"),
        # It claims success and writes nothing.
        ("exit 0", "No such file or directory"),
    ],
)
def test_a_failing_compiler_is_named_with_its_error(
    torch: TorchInstallation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    named: str,
) -> None:
    monkeypatch.setenv("PATH", fake_compiler(tmp_path / "bin", script))
    assert named in refusal(torch, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(torch: TorchInstallation, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = refusal(torch, tmp_path / "file" / "cache")
    assert f"cannot be built in {tmp_path}/file/cache: Not a directory" in text
    assert "XDG_CACHE_HOME" in text


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""


def test_a_disk_without_room_is_named_and_nothing_is_left(
    torch: TorchInstallation, tmp_path: Path
) -> None:
    """No file may grow beyond a limit, so that each write fails, as on a full disk."""
    command = [sys.executable, "-c", FULL + BUILD, str(torch.folder), str(tmp_path / "cache")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode
    last = ended.stderr.splitlines()[-1]
    assert "CannotSimulateError" in last
    assert "File too large" in last or "cannot build the simulated GPU" in last
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
def test_an_unknown_function_is_named(tmp_path: Path) -> None:
    function = "cusolverDnNew_bufferSize"
    extra = f"int {function}(void); int use(void) {{ return {function}(); }}\n"
    torch = small_torch.install(tmp_path / "site", extra=extra)
    text = refusal(torch, tmp_path / "cache")
    assert text.startswith("torch 2.13.0+cu130 cannot be simulated: ")
    assert function in text


@pytest.mark.slow
def test_two_torches_of_one_version_have_a_build_each(
    torch: TorchInstallation, tmp_path: Path
) -> None:
    more = "int cudaDeviceReset(void); int reset(void) { return cudaDeviceReset(); }\n"
    other = small_torch.install(tmp_path / "site", extra=more)
    assert other.version == torch.version
    assert prepare.build_once(other, tmp_path / "c") != prepare.build_once(torch, tmp_path / "c")


def test_the_cache_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert prepare.cache_folder() == tmp_path / "gpu-workbench" / "simulated-gpu"


@pytest.mark.parametrize("cuda", with_variants([13000], [12060]))
@pytest.mark.parametrize(
    "source", dict.fromkeys((*build.SOURCES, *build.NVML_SOURCES, build.PRELOADED_SOURCE))
)
def test_the_sources_compile_without_warnings(cuda: int, source: str, tmp_path: Path) -> None:
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    defined = [f"-DCUDA_VERSION={cuda}", "-DCUDNN_VERSION=92000"]
    file = build.HERE / f"{source}.c"
    find_compiler().run(
        [*build.COMPILE, *warnings, *defined, file, "-o", tmp_path / "out.o"],
        tmp_path,
    )


@pytest.mark.slow
@pytest.mark.timeout(500)  # it compiles a part of the C library first
def test_ziglang_builds_the_same_library(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang", reason="the extra [rehearse] is not installed")
    by_system = prepare.build_once(torch, tmp_path)
    monkeypatch.setenv("PATH", "")
    by_zig = prepare.build_once(torch, tmp_path)
    assert by_zig != by_system
    assert {path.name for path in by_zig.iterdir()} == {path.name for path in by_system.iterdir()}


def test_the_compilers_of_tests_are_those_of_users() -> None:
    assert find_compiler().command[0] == shutil.which("cc")
