"""A simulated GPU for a user's Python: prepared in one call, used by its children."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from tests.rehearsal import small_torch
from tests.tiers import VARIANT
from tui.rehearsal.device import build
from tui.rehearsal.device.installation import CannotSimulateError
from tui.rehearsal.device.prepare import prepare_device
from tui.rehearsal.device.settings import DeviceSettings

COUNT = """
import ctypes, importlib.util, pathlib
folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent
devices = ctypes.c_int()
status = ctypes.CDLL(folder / "lib" / "libtorch_cuda.so").count(ctypes.byref(devices))
print(status, devices.value)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a user's Python with the small torch and small stand-ins for NVIDIA's libraries."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    small_torch.install(site)
    return folder / "bin" / "python"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)


def refusal(python: Path) -> str:
    with pytest.raises(CannotSimulateError) as caught:
        prepare_device(str(python))
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


def test_a_child_of_the_python_uses_the_devices(python: Path, tmp_path: Path) -> None:
    device = prepare_device(str(python))
    assert device.libraries.is_relative_to(tmp_path / "cache" / "gpu-workbench")
    variables = device.variables(DeviceSettings(devices=2), tmp_path / "state", os.environ)
    for env, printed in (({**os.environ, **variables}, "0 2"), (dict(os.environ), "999 0")):
        done = subprocess.run(
            [python, "-c", COUNT], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == printed


@VARIANT
def test_preparing_writes_nothing_into_the_python_and_uses_no_device(
    python: Path, tmp_path: Path
) -> None:
    folder = python.parents[1]
    before = sorted(folder.rglob("*"))
    device = prepare_device(str(python))
    assert sorted(folder.rglob("*")) == before
    assert not (device.libraries / "state").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@VARIANT
def test_libraries_that_do_not_load_are_named(python: Path) -> None:
    """As in a folder that is mounted without permission to execute; the loader would go on."""
    device = prepare_device(str(python))
    (device.libraries / build.PRELOAD).write_text("damaged", encoding="ascii")
    text = refusal(python)
    assert "does not load the simulated GPU (ERROR: ld.so: object" in text
    assert f"remove {device.libraries}" in text


@pytest.mark.parametrize("name", ["two words", "a:b", "a;b", "$LIB"])
def test_a_cache_whose_name_the_loader_would_split_is_refused(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    assert "contains a space, colon, semicolon or dollar sign" in refusal(python)
    assert not (tmp_path / name).exists()
