"""The scripts: what each workload times, as a program that one can copy and run."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import workloads.scripts
from tui.headless.code import find_script
from tui.hosts.archive import build_runner_archive
from tui.kit.command_line.output import Failure, UsageError
from workloads import catalog
from workloads.declare.place import Place
from workloads.declare.source import read_functions
from workloads.declare.workload import (
    Case,
    Workload,
    forget,
    infos_with_code,
    registered,
    with_code,
    workload,
)
from workloads.protocol.groups import FIRST_STEPS
from workloads.protocol.messages import Hello
from workloads.protocol.results import WorkloadInfo

assert catalog
FOLDER = Path(workloads.scripts.__path__[0])
LONGEST = 50
"""Lines of a script: what fits on a screen and in a message."""
WIDEST = 76
"""Cells of a line of the first steps: 80 columns without the lesson's margins."""
NAMES = list(registered())
ELSEWHERE = [
    name
    for name in NAMES
    if (info := registered()[name].info).ranks or info.needs or "cpu" not in info.devices
]
"""Workloads whose functions run in other processes, or not on every machine."""


def _path(name: str) -> Path:
    return FOLDER / f"{name}.py"


def _tree(name: str) -> ast.Module:
    return ast.parse(_path(name).read_text(encoding="utf-8"))


def test_every_workload_has_a_script_and_every_script_a_workload() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert scripts == set(NAMES)


def test_a_script_is_short() -> None:
    lines = {name: len(_path(name).read_text(encoding="utf-8").splitlines()) for name in NAMES}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def _imports(name: str) -> set[str]:
    """Return the top-level modules that a script imports."""
    return {
        module.partition(".")[0]
        for node in ast.walk(_tree(name))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
        )
    }


def test_a_script_of_the_first_steps_fits_a_terminal_of_80_columns() -> None:
    wide = {
        f"{name}:{number}": line
        for name, entry in registered().items()
        if entry.info.group == FIRST_STEPS
        for number, line in enumerate(_path(name).read_text("utf-8").splitlines(), 1)
        if len(line) > WIDEST
    }
    assert wide == {}


def test_a_script_imports_torch_and_the_standard_library_alone() -> None:
    imported = {name: _imports(name) for name in NAMES}
    assert [name for name in NAMES if "torch" not in imported[name]] == []
    others = {name: imported[name] - {"torch"} - sys.stdlib_module_names for name in NAMES}
    assert {name: found for name, found in others.items() if found} == {}


def test_a_script_only_defines_functions_until_it_is_run() -> None:
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
    for name in NAMES:
        first, *rest, last = _tree(name).body
        assert isinstance(first, ast.Expr), f"{name}: what it shows, in a docstring"
        assert isinstance(last, ast.If), name
        assert ast.unparse(last.test) == "__name__ == '__main__'", name
        assert [node for node in rest if not isinstance(node, kinds)] == [], name


class _Reached(BaseException):
    """Ends a call that has come as far as it is of interest; no code catches it."""


def _reaches(call: Callable[[], object], path: Path) -> bool:
    """Return whether a call executes a function of a file in this thread, and end it there."""

    def find(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == str(path):
            raise _Reached

    before = sys.getprofile()
    sys.setprofile(find)
    try:
        call()
    except _Reached:
        return True
    finally:
        sys.setprofile(before)
    return False


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELSEWHERE])
def test_what_is_timed_on_the_cpu_is_a_function_of_the_script(name: str) -> None:
    case = registered()[name].prepare(Place("cpu"))
    try:
        assert _reaches(case.timed, _path(name))
    finally:
        if case.cleanup is not None:
            case.cleanup()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_runs_elsewhere_is_imported_from_the_script(name: str) -> None:
    module = inspect.getsource(inspect.getmodule(registered()[name].prepare) or workloads)
    imports = [
        node
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.ImportFrom) and node.module == f"workloads.scripts.{name}"
    ]
    assert imports
    functions = {node.name for node in _tree(name).body if isinstance(node, ast.FunctionDef)}
    assert {each.name for node in imports for each in node.names} & functions


def test_what_is_shown_as_timed_is_the_functions_of_the_script() -> None:
    for name in NAMES:
        info = with_code(registered()[name])
        assert info.script == _path(name).read_text(encoding="utf-8"), name
        assert info.code == read_functions(info.script), name
        assert info.code.startswith(("def ", "class ", "@")), name


def test_a_runner_in_an_archive_reads_the_scripts_too(tmp_path: Path) -> None:
    archive = tmp_path / "runner.zip"
    archive.write_bytes(build_runner_archive())
    command = [sys.executable, "-I", str(archive), "workloads", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    found = {info["name"]: info["script"] for info in json.loads(done.stdout)}
    assert found == {name: _path(name).read_text(encoding="utf-8") for name in NAMES}


def test_the_functions_are_read_whole_and_in_order() -> None:
    script = (
        '"""Doc."""\nimport torch\n\nN = 1\n\n\nclass A(torch.nn.Module):\n    pass\n\n\n'
        "@torch.no_grad()\ndef f() -> int:\n    return N\n\n\n"
        'if __name__ == "__main__":\n    print(f())\n'
    )
    assert read_functions(script) == (
        "class A(torch.nn.Module):\n    pass\n\n@torch.no_grad()\ndef f() -> int:\n    return N"
    )


def _own(name: str) -> Workload:
    def own(on: Place) -> Case:
        x = on.randn(2)
        return Case(lambda: x + 1)

    own.__name__ = name
    workload(group="g", title="t", about="a.", look_for="l.")(own)
    return registered()[name]


def test_a_users_workload_has_no_script_and_its_lines_are_shown() -> None:
    try:
        info = with_code(_own("mine"))
    finally:
        forget("mine")
    assert (info.script, info.code) == ("", "x + 1")


def _hello(*more: WorkloadInfo, problems: tuple[str, ...] = ()) -> Hello:
    return Hello(1, 1, "3.12", "python", (*infos_with_code(), *more), problems)


def test_the_command_prints_the_script() -> None:
    assert find_script(_hello(), "matmul") == _path("matmul").read_text(encoding="utf-8")


def test_a_name_that_is_not_known_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"no workload matmull \(did you mean matmul\?\)"):
        find_script(_hello(), "matmull")


def test_a_name_that_an_unreadable_file_may_declare_is_a_failure() -> None:
    with pytest.raises(Failure, match="no workload xyz"):
        find_script(_hello(problems=("f.py:1: SyntaxError",)), "xyz")


def test_a_users_workload_is_told_to_have_no_script() -> None:
    mine = WorkloadInfo("mine", "g", "t", "a.", "l.", (), ("cpu",), code="x + 1")
    with pytest.raises(Failure, match="mine has no script: your own file declares it"):
        find_script(_hello(mine), "mine")
