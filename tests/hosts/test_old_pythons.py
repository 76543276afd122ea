"""What is sent to a host runs on each Python since 3.8."""

from __future__ import annotations

import ast
import io
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.hosts.conftest import Boxes
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.tiers import VARIANT
from tui.allocators.process_files import ReadAccess
from tui.hosts.archive import build_archive
from tui.hosts.boot import OLDEST
from tui.hosts.events import HostLost, HostSample
from tui.hosts.survey import check_access, survey_host
from tui.hosts.watching import first_samples

LATER_ARGUMENTS = {"slots", "kw_only", "strict", "match_args"}
"""Keyword arguments of ``dataclass`` and ``zip`` that Python 3.8 lacks."""
LATER_METHODS = {"removeprefix", "removesuffix"}


def find_python(minor: int) -> str | None:
    """Return a Python 3 of that minor version; ``None`` where this machine has none that runs."""
    installed = Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python")
    for candidate in (shutil.which(f"python3.{minor}"), *map(str, installed)):
        if candidate is None:
            continue
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and f"Python 3.{minor}." in done.stdout:
            return candidate
    return None


@pytest.mark.parametrize(
    "minor", [8, *(pytest.param(minor, marks=VARIANT) for minor in (9, 10, 13))]
)
async def test_the_monitor_runs_on_a_python_without_packages(
    minor: int, boxes: Boxes, scripted_nvml: ScriptedNvml
) -> None:
    python = find_python(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    variables = scripted_nvml.env(busy_box(2))
    names = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")
    script = f'shift; exec {shlex.quote(python)} -S "$@"'
    host = boxes.add("old", script, {name: variables[name] for name in names})
    (event,) = await first_samples((host,), within_s=60)
    assert isinstance(event, HostSample), event
    assert [device.memory.used is not None for device in event.sample.devices] == [True, True]
    assert isinstance(await check_access(host), ReadAccess)


async def test_each_python_is_found_however_old(boxes: Boxes) -> None:
    python = find_python(6) or find_python(7)
    if python is None:
        pytest.skip("no Python 3.6 or 3.7 on this machine")
    survey = await survey_host(boxes.add("old", 'exec "$@"'), python)
    assert survey.pythons[0].version[:2] in ((3, 6), (3, 7))
    assert survey.pythons[0].torch is None


async def test_an_older_python_is_named_as_such(boxes: Boxes) -> None:
    python = find_python(7) or find_python(6)
    if python is None:
        pytest.skip("no Python 3.6 or 3.7 on this machine")
    in_place = f'if [ "$1" = python3 ]; then shift; exec {shlex.quote(python)} "$@"; fi; exec "$@"'
    host = boxes.add("old", in_place)
    (event,) = await first_samples((host,), within_s=60)
    assert isinstance(event, HostLost)
    assert "is too old, 3.8 or newer is needed: name a Python with --host-python" in event.reason


def test_no_module_that_is_sent_needs_a_later_python() -> None:
    with zipfile.ZipFile(io.BytesIO(build_archive())) as archive:
        sources = {name: archive.read(name).decode() for name in archive.namelist()}
    assert "tui/monitor/monitor.py" in sources
    for name, source in sources.items():
        tree = ast.parse(source, name, feature_version=OLDEST)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        given = {keyword.arg for call in calls for keyword in call.keywords if _is_builtin(call)}
        assert not given & LATER_ARGUMENTS, name
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not used & LATER_METHODS, name


def _is_builtin(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("dataclass", "zip")
