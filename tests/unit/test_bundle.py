"""doctor's support bundle names no user, host or folder; doctor's checks do not wait for ever."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nvml.fixtures import ScriptedNvml, scripted_library, scripted_nvml
from tests.nvml.scenario import Gpu, Proc, Scenario
from tests.screens.helpers import gpu, gpu_process, host, sample
from tui.core import reports
from tui.doctor import doctor
from tui.doctor.checks import CheckResult, run_with_timeout
from tui.doctor.doctor import PATH, Anonymizer, DoctorOptions, build_bundle, write_bundle
from tui.kit.command_line.values import PythonChoice
from tui.monitor.messages import HostProcesses

__all__ = ["scripted_library", "scripted_nvml"]

ME, COLLEAGUE, BOX = "jane.doe", "ada", "janes-box"
STACK = f'File "/home/{ME}/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 3'
SECRETS = (ME, COLLEAGUE, BOX, "secret-project", "thesis", "/home/", "/data/")


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", ME)
    monkeypatch.setenv("HOME", f"/home/{ME}")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(socket, "gethostname", lambda: f"{BOX}.secret-project.example")
    reports.save(
        "the runner ended: SIGSEGV",
        [("python", f"/home/{ME}/venv/bin/python"), ("torch", "2.11.0")],
        [STACK, f"{COLLEAGUE}@{BOX}: cannot open /data/{COLLEAGUE}/thesis/model.pt"],
    )


CHECKS = [
    CheckResult("python", "passed", f"3.11.7 at /home/{ME}/venv/bin/python"),
    CheckResult("state folder", "passed", f"/home/{ME}/.local/state/gpu-workbench"),
    CheckResult("NVML", "warning", "no permission", "give yourself /dev/nvidia0; 310/700 W drawn"),
]
ROW = gpu_process(user=COLLEAGUE, command=f"python /home/{COLLEAGUE}/secret-project/train.py")
SAMPLE = sample(
    gpu(0, processes=(ROW,)), host=host(name=BOX), host_processes=HostProcesses((ROW,), 0, 0, 0)
)
ENVIRONMENT = {
    "executable": f"/data/{COLLEAGUE}/env/bin/python",
    "torch": "2.11.0",
    "variables": {"LD_PRELOAD": f"/home/{ME}/lib.so:/data/thesis/x.so", "OMP_NUM_THREADS": "4"},
}


def test_none_of_what_is_planted_is_in_it_and_what_helps_is() -> None:
    text = json.dumps(build_bundle(CHECKS, SAMPLE, ENVIRONMENT, with_names=False))
    assert [secret for secret in SECRETS if secret in text] == []
    for kept in ("NVIDIA H200", "2.11.0", "SIGSEGV", "site-packages/torch/nn/modules/linear.py"):
        assert kept in text
    for kept in ("/dev/nvidia0", "310/700 W", "OMP_NUM_THREADS", "left out of the bundle"):
        assert kept in text


def test_with_names_everything_is_as_it_was() -> None:
    text = json.dumps(build_bundle(CHECKS, SAMPLE, ENVIRONMENT, with_names=True))
    assert [secret for secret in SECRETS if secret not in text] == []


WORDS = st.text("abcdefghij-_.", min_size=1, max_size=12).filter(lambda word: word.strip("."))


@given(
    st.sampled_from(
        ["/home/", "/Users/", "/mnt/c/Users/", "~", "/data/", "C:\\Users\\", "\\\\nas\\"]
    ),
    st.lists(WORDS, min_size=2, max_size=4),
    st.sampled_from(["", "at ", "'", "(", "path=", "file://", "a:", "[x] "]),
)
@example("/home/", ["zoe", "x"], "")
def test_no_folder_of_any_path_is_left(root: str, folders: list[str], before: str) -> None:
    marked = [f"{folder}zq" for folder in folders]
    separator = "\\" if "\\" in root else "/"
    said = Anonymizer()(f"{before}{root}{separator.join(marked)}: it went wrong")
    assert "zq" not in said
    assert PATH in said
    assert said.endswith(": it went wrong")


def test_it_is_for_its_owner_alone_and_takes_no_other_files_place(tmp_path: Path) -> None:
    place = tmp_path / "bundle.json"
    write_bundle(place, CHECKS, "the monitor gave no sample", ENVIRONMENT, with_names=False)
    assert place.stat().st_mode & 0o777 == 0o600
    whole = json.loads(place.read_text(encoding="utf-8"))
    assert (whole["schema"], whole["names"]) == (1, False)
    with pytest.raises(FileExistsError):
        write_bundle(place, CHECKS, SAMPLE, ENVIRONMENT, with_names=False)


async def test_a_check_that_hangs_is_left_alone_after_its_time() -> None:
    never = threading.Event()
    assert await run_with_timeout(0.05, never.wait, otherwise=False) is False
    assert await run_with_timeout(60, lambda: 5, otherwise=0) == 5
    with pytest.raises(ValueError, match="broken"):
        await run_with_timeout(60, lambda: int("broken"), otherwise=0)
    assert not asyncio.all_tasks() - {asyncio.current_task()}
    never.set()


def test_with_a_driver_that_hangs_doctor_says_so_and_writes_the_bundle(
    scripted_nvml: ScriptedNvml,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = Scenario(devices=(Gpu(processes=(Proc(pid=1),)),))
    for name, value in scripted_nvml.env(box.returns("nvmlInitWithFlags", hang=True)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "SAMPLE_TIMEOUT_S", 1.0)
    place = tmp_path / "bundle.json"
    python = PythonChoice(str(tmp_path / "no-python"), "--python")
    assert doctor.examine(python, DoctorOptions(bundle=str(place))) == 1
    out = capsys.readouterr()
    assert "failed   torch" in out.out
    assert "is written, without names of users, hosts and folders" in out.err
    text = place.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert ME not in text
    answer, _, *rows = out.out.splitlines()
    assert answer.startswith(tuple("123456789"))
    assert " failed: " in answer
    for line in rows:
        outcome = line.split()[0]
        assert outcome in ("passed", "warning", "failed", "→")
    # Each that is not well says what to do.
    lines = out.out.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("warning", "failed")):
            assert following.lstrip().startswith("→"), line
    assert sys.executable not in text
