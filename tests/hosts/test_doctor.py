"""``gpu-workbench doctor --host``, as a user runs it: what works there, and what to do."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.hosts.conftest import Boxes
from tests.in_process import run_here
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.tiers import VARIANT
from tui.devices.state.same_machine import SeenHost
from tui.doctor.hosts import HostFindings, add_overlaps
from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modules travel in a memfd")
AS_IT_IS = 'exec "$@"'
NAMES = ("LD_LIBRARY_PATH", "SCRIPTED_NVML", "SCRIPTED_NVML_LOG")


def _doctor(boxes: Boxes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tui", "doctor", "--transport", boxes.transport, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _add_pythons(boxes: Boxes, name: str, pythons: dict[str, str], **variables: str) -> None:
    """Create a host whose shell finds these Pythons first: options of this one by name."""
    folder = boxes.folder / f"{name}.bin"
    folder.mkdir()
    for python, options in pythons.items():
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options} "$@"\n'
        (folder / python).write_text(script, encoding="utf-8")
        (folder / python).chmod(0o700)
    script = f'export PATH={shlex.quote(str(folder))}:"$PATH"; {AS_IT_IS}'
    nowhere = {"VIRTUAL_ENV": "/nowhere", "CONDA_PREFIX": "/nowhere"}
    boxes.add(name, script, {**nowhere, **variables})


def _group(text: str, name: str) -> list[str]:
    """Return the lines of one host."""
    return next(part for part in text.split("\n\n") if part.startswith(f"{name}\n")).splitlines()


def test_each_host_is_a_group_and_one_that_is_not_reached_affects_no_other(
    boxes: Boxes, scripted_nvml: ScriptedNvml
) -> None:
    variables = scripted_nvml.env(busy_box(2))
    _add_pythons(boxes, "a", {"python3": ""}, **{name: variables[name] for name in NAMES})
    boxes.add("b", "echo 'Permission denied (publickey).' >&2; exit 255")
    done = _doctor(boxes, "--host", "b,a")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].startswith("b: not reached, a: ")
    reach = f"sh {boxes.folder}/reach b"
    assert _group(done.stdout, "b") == [
        "b",
        "failed   connection     Permission denied (publickey)",
        f"{'':<23} → run `{reach}` once to see which key or password it wants",
    ]
    lines = _group(done.stdout, "a")
    assert any(re.fullmatch(r"passed   connection     \d+ ms away", line) for line in lines)
    assert [line.split()[0] for line in lines[1:3]] == ["warning", "→"]
    assert any(line.startswith("passed   NVML           driver ") for line in lines)
    assert any(line.startswith("passed   torch ") for line in lines)
    assert any(line.startswith("warning  device         nvml:0-1: ") for line in lines)
    assert any(" watch  " in line for line in lines)
    assert list((boxes.folder / "a.home").iterdir()) == []


@VARIANT
def test_the_pythons_are_listed_with_their_torch(boxes: Boxes) -> None:
    _add_pythons(boxes, "a", {"python3": "-S", "python": ""})
    done = _doctor(boxes, "--host", "a", "--json")
    (host,) = json.loads(done.stdout)["hosts"]
    pythons = [check["found"] for check in host["checks"] if check["name"] == "python"]
    assert pythons[0].endswith(", no torch")
    assert ", torch " in pythons[1]
    (torch,) = [check for check in host["checks"] if check["name"] == "torch"]
    assert torch["outcome"] == "passed"
    assert torch["found"].endswith("the first that has torch")
    assert "error" not in host


@VARIANT
def test_a_host_without_torch_says_which_option_names_a_python(boxes: Boxes) -> None:
    _add_pythons(boxes, "a", {"python3": "-S", "python": "-S"})
    done = _doctor(boxes, "--host", "a")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("a: 1 failed")
    assert "failed   torch          there is no torch in " in done.stdout
    assert "--host-python a=PATH" in done.stdout


# The survey of Pythons is tried above; here, what each answer leads to.
@VARIANT
def test_a_host_whose_python3_fails_names_a_python_that_it_has(boxes: Boxes) -> None:
    _add_pythons(boxes, "a", {"python": ""})
    broken = boxes.folder / "a.bin" / "python3"
    broken.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    broken.chmod(0o700)
    done = _doctor(boxes, "--host", "a")
    assert done.returncode == 1
    lines = _group(done.stdout, "a")
    at = next(number for number, line in enumerate(lines) if "monitor" in line)
    assert lines[at].startswith("failed   monitor        no python3 there")
    assert lines[at + 1].startswith(f"{'':<23} → try --host-python a=")
    # Runs use the Python that has torch.
    assert any(line.startswith("passed   torch ") for line in lines)


@VARIANT
def test_a_named_python_is_used_for_everything(boxes: Boxes) -> None:
    _add_pythons(boxes, "a", {"python3": "-S", "python": "-S"})
    done = _doctor(boxes, "--host", "a", "--host-python", f"a={sys.executable}")
    assert ", from --host-python\n" in done.stdout
    assert " failed" not in done.stdout.splitlines()[0]


def test_json_has_the_reason_of_a_host_that_is_not_reached(boxes: Boxes) -> None:
    boxes.add("a", "exit 127")
    done = _doctor(boxes, "--host", "a", "--json")
    assert done.returncode == 1
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["error"] == "no python3 there: name a Python with --host-python a=PATH"
    assert [check["outcome"] for check in host["checks"]] == ["failed"]


def test_a_machine_that_was_named_before_is_recognized() -> None:
    one = MachineIdentity("boot 1", 1000.0, "pid:[1] net:[1]")
    container = replace(one, namespaces="pid:[2] net:[2]")
    other = replace(one, boot_id="boot 2")
    seen = {"gpu1": one, "alias": one, "pod": container, "gpu2": other, "gpu3": UNKNOWN}
    hosts = [HostFindings(name, (), seen=SeenHost(name, each)) for name, each in seen.items()]
    found = add_overlaps([*hosts, HostFindings("lost", (), reached=False)], UNKNOWN)
    said = {
        each.host: [(of.outcome, of.found, of.advice) for of in each.findings] for each in found
    }
    leave_out = "leave one of the two out of --host"
    assert said == {
        "gpu1": [],
        "alias": [("warning", "same machine as gpu1", leave_out)],
        "pod": [("passed", "same kernel as gpu1", "")],
        "gpu2": [],
        "gpu3": [],
        "lost": [],
    }
    # This machine is no host of its own, so a name for it is no mistake.
    first = add_overlaps(hosts[:1], one)[0].findings[0]
    assert (first.outcome, first.found) == ("passed", "same machine as here")


def test_a_host_that_says_other_things_is_not_reached(boxes: Boxes) -> None:
    boxes.add("a", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo '{}'; exit 1")
    done = _doctor(boxes, "--host", "a")
    assert done.returncode == 1
    assert (
        "failed   connection     the connection ended: exit status 1; it said '{}'" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host=-oProxyCommand=x",), "begins with a dash"),
        (("--host", "a", "--bundle", "x"), "--bundle covers one machine"),
        (("--host", "a", "--with-names"), "--bundle covers one machine"),
        (("--host", "a", "--python", sys.executable), "--python is for this machine"),
        ((), "need --host or --slurm"),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused(
    boxes: Boxes, arguments: tuple[str, ...], said: str
) -> None:
    done = run_here("doctor", "--transport", boxes.transport, *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
