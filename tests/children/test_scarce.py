"""Commands where the machine lacks what they need: files that may be opened, /proc."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tui.core.child.launch import too_many_files
from tui.monitor.__main__ import has_proc
from workloads import ENTRY

SNAPSHOT = str(Path(ENTRY).parent / "tui" / "recordings" / "demo_out_of_memory.pickle.gz")
COMMANDS = [
    ("devices",),
    ("list",),
    ("snapshot", SNAPSHOT),
    ("run", "matmul", "--device", "cpu", "--quick"),
]


def printed(folder: Path, shell: tuple[str, ...], words: tuple[str, ...]) -> tuple[int, str]:
    command = [*shell, sys.executable, ENTRY, "tui", *words]
    variables = {**os.environ, "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_too_few_files_are_one_line_with_the_limit_and_what_to_do(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, said = printed(tmp_path, ("/bin/sh", "-c", 'ulimit -n 12; exec "$@"', "sh"), words)
    assert code == 1
    assert said.count("\n") == 1
    assert "too many open files for a limit of 12" in said
    assert "ulimit -n 1024" in said
    assert "--python" not in said


def test_another_error_is_not_taken_for_it() -> None:
    assert too_many_files(FileNotFoundError(errno.ENOENT, "no such file")) is None
    assert "this machine" in (too_many_files(OSError(errno.ENFILE, "")) or "")


WITHOUT = ("unshare", "--mount", "/bin/sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")


def test_without_proc_the_devices_are_one_line_that_says_how_to_mount_it(tmp_path: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*WITHOUT, "true"], check=False).returncode
    ):
        pytest.skip("this user may not hide /proc: unshare --mount needs CAP_SYS_ADMIN")
    code, said = printed(tmp_path, WITHOUT, ("devices",))
    assert code == 1
    assert said.count("\n") == 1
    assert "/proc, which is not there" in said
    assert "mount -t proc proc /proc" in said


def test_proc_is_there_where_it_has_the_processor_s_figures(tmp_path: Path) -> None:
    assert has_proc(tmp_path) == (sys.platform != "linux")
    (tmp_path / "stat").touch()
    assert has_proc(tmp_path)


@pytest.mark.parametrize("limit", ["99999999999999999999", "0", "-3"])
def test_a_limit_that_no_list_reaches_is_wrong_usage(tmp_path: Path, limit: str) -> None:
    code, said = printed(tmp_path, (), ("results", "--limit", limit))
    assert code == 2
    assert f"--limit {limit}: from 1 to 1000000" in said
