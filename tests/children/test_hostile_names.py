"""Folders and modules of a user's that are called as this program's packages are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from workloads import ENTRY, START

ROOT = Path(ENTRY).parent
PROGRAM = (sys.executable, ENTRY, "tui")
SNAPSHOT = str(ROOT / "tui" / "recordings" / "demo_out_of_memory.pickle.gz")
THEIRS = "raise RuntimeError('the module of another program')\n"
STANDARD = ("json", "signal", "selectors", "torch", "textual")
"""Modules that the program imports, and that a current folder may have too."""
OWN = """
from workloads.workload import Case, workload

@workload(group="mine", title="own", about="a.", look_for="l.")
def own(on):
    return Case(lambda: None)
"""
COMMANDS = {
    "devices": ("devices", "--json"),
    "list": ("list", "--json", "--workloads", "{own}"),
    "snapshot": ("snapshot", SNAPSHOT, "--json"),
    "watch": ("watch", "--no-screen", "--json", "--", sys.executable, "-I", "-c", "print(7)"),
    "config": ("config",),
}
"""Between them they start the monitor, the runner, the reader and the watch."""
SLOW = {
    "doctor": ("doctor", "--json"),
    "run": ("run", "own", "--workloads", "{own}", "--device", "cpu", "--quick", "--json"),
    "compare": (
        "compare",
        "conv2d",
        "--flag",
        "mkldnn.enabled=off,on",
        "--device",
        "cpu",
        "--quick",
        "--json",
    ),
    "ranks": ("run", "all_reduce", "--device", "cpu", "--quick", "--json"),
}


def packages(folder: Path) -> Path:
    for name in ("tui", "workloads"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(THEIRS)
    return folder


def modules(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("tui", "workloads"):
        (folder / f"{name}.py").write_text(THEIRS)
    return folder


def hostile(folder: Path, where: str) -> tuple[Path, dict[str, str]]:
    """Write modules with our packages' names; return the current folder and the variables.

    Args:
        folder: it is put there.
        where: ``current`` for the current folder alone, where modules of the standard library and
            of our requirements are hidden too; else for ``PYTHONPATH`` as well, by relative and
            absolute path, as ``packages`` or ``modules``.
    """
    place = (modules if where == "modules" else packages)(folder / "theirs")
    variables = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    if where == "current":
        for name in STANDARD:
            (place / f"{name}.py").write_text(THEIRS)
        variables.pop("PYTHONPATH", None)
    else:
        variables["PYTHONPATH"] = f".:{place}"
    return place, variables


def printed(
    folder: Path, where: str, words: tuple[str, ...], program: tuple[str, ...] = PROGRAM
) -> subprocess.CompletedProcess[str]:
    place, variables = hostile(folder, where)
    own = folder / "own.py"
    own.write_text(OWN)
    command = [*program, *(word.format(own=own) for word in words)]
    return subprocess.run(
        command, cwd=place, env=variables, capture_output=True, text=True, check=False, timeout=110
    )


def assert_it_worked(done: subprocess.CompletedProcess[str], words: tuple[str, ...]) -> None:
    assert "another program" not in done.stderr + done.stdout
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    if "--json" in words:
        found = json.loads(done.stdout)
        assert found["schema"] == 1
        if words[0] == "list":
            assert "own" in [info["name"] for info in found["workloads"]]
        for result in found.get("results", ()):
            assert result["status"] == "ok"


@pytest.mark.parametrize(
    "where",
    ["current", *(pytest.param(each, marks=pytest.mark.slow) for each in ("packages", "modules"))],
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_children_load_their_own_code(
    tmp_path: Path, name: str, where: str
) -> None:
    assert_it_worked(printed(tmp_path, where, COMMANDS[name]), COMMANDS[name])


def test_a_visit_of_serve_loads_its_own_code(tmp_path: Path) -> None:
    visit = (sys.executable, ENTRY, "tui.cli.visit", str(os.getpid()))
    words = ("devices", "--json")
    assert_it_worked(printed(tmp_path, "packages", words, visit), words)


def test_a_runner_in_another_environment_loads_our_code_and_not_what_is_installed_there(
    tmp_path: Path,
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    packages(site)
    words = ("list", "--json", "--python", str(venv / "bin" / "python"), "--workloads", "{own}")
    assert_it_worked(printed(tmp_path, "packages", words), words)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["current", "packages", "modules"])
@pytest.mark.parametrize("name", SLOW)
def test_workers_and_ranks_load_their_own_code(tmp_path: Path, name: str, where: str) -> None:
    assert_it_worked(printed(tmp_path, where, SLOW[name]), SLOW[name])


@VARIANT
@pytest.mark.parametrize("where", ["current", "packages"])
def test_the_screen_and_its_children_load_their_own_code(tmp_path: Path, where: str) -> None:
    place, variables = hostile(tmp_path, where)
    inside = f'cd "{place}" && exec "$@"'
    command = ("/bin/sh", "-c", inside, "sh", *PROGRAM, "--snapshot", SNAPSHOT)
    with Terminal(command, 120, 40, variables) as terminal:
        terminal.until_shows("OOM")
        terminal.keys("1")
        terminal.until_shows("matmul n=")
        terminal.keys("q")
        assert terminal.exit_code() == 0


def test_python_m_finds_workloads_beside_tui(tmp_path: Path) -> None:
    """``-m`` itself chooses the folder ``tui``; what follows is this program's again."""
    place = packages(tmp_path / "theirs")
    (place / "tui" / "__init__.py").unlink()
    (place / "tui").rmdir()
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tui", "devices", "--json"],
        cwd=place, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert_it_worked(done, ("devices", "--json"))


def list_in_runner(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    own = folder / "own.py"
    own.write_text(text + OWN)
    return subprocess.run(
        [sys.executable, *START, "list", "--workloads", str(own)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_users_file_imports_its_own_tui_and_every_other_module_as_before(tmp_path: Path) -> None:
    (tmp_path / "tui.py").write_text("MINE = 7\n")
    look = f"import sys, tui\nassert tui.MINE == 7\nassert {str(ROOT)!r} not in sys.path[:1]\n"
    done = list_in_runner(tmp_path, look)
    assert (done.returncode, done.stderr) == (0, "")


PATH = "import json, sys\ndef main():\n    print(json.dumps(sys.path))\n"
SAFE = pytest.param(
    ("-P",), marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
)


@pytest.mark.parametrize("options", [(), SAFE])
def test_the_path_is_that_of_any_script_without_the_folder_of_the_entry(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "shows_path.py").write_text(PATH)
    script = tmp_path / "script.py"
    script.write_text(PATH + "main()\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def path_of(*words: object) -> list[str]:
        asked = [sys.executable, *options, *map(str, words)]
        found: list[str] = json.loads(subprocess.check_output(asked, env=variables, text=True))
        return found

    # With -P Python puts no folder of a script first.
    expected = path_of(script)[0 if options else 1 :]
    assert path_of(ENTRY, "shows_path") == expected


STARTS_PROCESSES = """
import multiprocessing
from multiprocessing import get_context


def main():
    # By name: the child imports it, and with it the package.
    from workloads.protocol.process import describe_signal
    for method in ("spawn", "forkserver"):
        with get_context(method).Pool(1) as pool:
            print(pool.apply(describe_signal, (9,)))
"""


@pytest.mark.slow
def test_a_process_that_is_spawned_loads_our_packages(tmp_path: Path) -> None:
    place, variables = hostile(tmp_path, "packages")
    (place / "starts_processes.py").write_text(STARTS_PROCESSES)
    done = subprocess.run(
        [sys.executable, ENTRY, "starts_processes"],
        cwd=place, env=variables, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.count("SIGKILL") == 2


# ---- installed ----


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """Copy the sources, since a build writes files among them."""
    names = ["pyproject.toml", "README.md", "gpu_workbench_entry.py", "tui", "workloads"]
    folder.mkdir()
    for name in names:
        subprocess.run(["cp", "-r", ROOT / name, folder], check=True)
    yield folder


@pytest.mark.slow
@pytest.mark.parametrize("way", ["editable", "wheel"])
def test_an_installed_program_loads_its_own_code(tmp_path: Path, way: str) -> None:
    """Also where another package has brought modules of our names into site-packages."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    required = Path(pytest.__file__).parents[1]
    # A file .pth in there is not read: the requirements alone are found.
    (site / "requirements.pth").write_text(f"{required}\n")
    before = packages(tmp_path / "before") if way == "wheel" else None
    if before is None:
        packages(site)
    else:
        (site / "a_first.pth").write_text(f"import sys; sys.path.insert(0, {str(before)!r})\n")
        for name in ("tui", "workloads"):
            (site / f"{name}.py").write_text(THEIRS)
    with _copied(tmp_path / "sources") as sources:
        pip = [sys.executable, "-m", "pip", "--python", str(venv), "install", "--no-deps"]
        pip += ["--no-build-isolation", "--quiet", "--disable-pip-version-check"]
        pip += ["--editable"] if way == "editable" else []
        subprocess.run([*pip, str(sources)], check=True, capture_output=True, timeout=100)
    program = (str(venv / "bin" / "gpu-workbench"),)
    for name, words in COMMANDS.items():
        folder = tmp_path / name
        folder.mkdir()
        assert_it_worked(printed(folder, "packages", words, program), words)
