"""A Python process with the agent's folder in ``PYTHONPATH``: what it prints is what it was."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.agent.interpreters import WAYS, Way, environment, others, outcome, write_programs
from tui.watch.runs.start import START_FOLDER

AGENT = START_FOLDER.parent
SOURCES = sorted(AGENT.rglob("*.py"))
LATER = (
    *(
        "backward_lines",
        "code_files",
        "inventory",
        "leftovers",
        "likely_lines",
        "owners",
        "reach",
        "rehearsal",
    ),
    *("optimizer_state", "source_lines", "thread_locals", "variable_codes"),
)
"""What is loaded where memory runs out or a rehearsal begins, and nowhere else."""


def compare(python: str, way: Way, folder: Path, **more: str) -> tuple[int, bytes, bytes]:
    plain = outcome(python, way, folder, environment(folder, watched=False, more=more))
    watched = outcome(python, way, folder, environment(folder, watched=True, more=more))
    assert watched == plain
    return plain


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_output_and_exit_code_are_equal_to_the_byte(way: Way, tmp_path: Path) -> None:
    write_programs(tmp_path)
    compare(sys.executable, way, tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", others())
def test_the_same_of_each_other_python_here(version: str, tmp_path: Path) -> None:
    write_programs(tmp_path)
    for way in WAYS:
        compare(others()[version], way, tmp_path)
    assert not (tmp_path / "run").exists()


OWN = {
    "prints": "print('own', __name__, __file__)",
    "fails": "raise ValueError('mine')",
    "lacks": "import nothing_of_this_name",
    "replaces itself": "import sys; sys.modules[__name__] = sys; print('replaced')",
    "hooks": "import sys\ndef hook(*a): print('hook', a[1])\nsys.excepthook = hook",
}
ASKS = Way("asks", ("-c", "import sitecustomize as s; print(s.__name__, s.__spec__.origin); 1 / 0"))


@pytest.mark.parametrize(
    "python",
    [
        sys.executable,
        *(pytest.param(other, marks=pytest.mark.slow) for other in others().values()),
    ],
)
@pytest.mark.parametrize("name", OWN)
def test_a_sitecustomize_of_the_user_s_is_executed_as_before(
    name: str, python: str, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(OWN[name])
    write_programs(tmp_path)
    compare(python, ASKS, tmp_path, PYTHONPATH=str(folder))
    compare(python, WAYS[0], tmp_path, PYTHONPATH=str(folder))


def test_without_one_there_is_only_the_agent_s(tmp_path: Path) -> None:
    way = Way("asks", ("-c", "import sys; print(sys.modules['sitecustomize'].__file__)"))
    _, out, errors = outcome(sys.executable, way, tmp_path, environment(tmp_path, watched=True))
    assert (Path(out.decode().strip()), errors) == (START_FOLDER / "sitecustomize.py", b"")


TRACED = """
import sys
seen = []
def trace(frame, event, argument):
    if frame.f_code.co_filename == 'traced.py':
        seen.append((event, frame.f_lineno))
    return trace
sys.settrace(trace)
exec(compile("def f(n):\\n    return n + 1\\nf(1)\\nimport json\\n", "traced.py", "exec"))
sys.settrace(None)
print(seen)
"""
DEBUGGED = Way("pdb", ("-m", "pdb", "broken.py"), "step\nnext\nstep\nwhere\nargs\nquit\n")


def test_a_tracer_and_a_debugger_see_what_they_saw(tmp_path: Path) -> None:
    write_programs(tmp_path)
    _, out, _ = compare(sys.executable, Way("traced", ("-c", TRACED)), tmp_path)
    assert b"'line'" in out
    _, out, _ = compare(sys.executable, DEBUGGED, tmp_path)
    assert b"broken.py" in out


@pytest.mark.slow
def test_torch_on_the_cpu_leaves_the_agent_asleep(tmp_path: Path) -> None:
    code = (
        "import torch, sys, threading\n"
        "torch.manual_seed(1); model = torch.nn.Linear(3, 3)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(3)).sum().backward(); optimizer.step()\n"
        "print(sum(p.sum() for p in model.parameters()), threading.active_count())\n"
        "print('gpu_workbench_agent' in sys.modules, len(sys.meta_path))\n"
        "print(sys.path, torch.cuda._is_compiled())\n"
    )
    way = Way("torch", ("-c", code))
    _, out, _ = compare(sys.executable, way, tmp_path, CUDA_VISIBLE_DEVICES="")
    assert b"False" in out
    assert not (tmp_path / "run").exists()


# ---- what it is made of ----


def test_each_file_is_python_3_8() -> None:
    for path in SOURCES:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


def test_it_imports_the_standard_library_and_its_own_files_alone() -> None:
    names = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).partition(".")[0])
    # torch's modules are imported where torch is there already.
    assert names - set(sys.stdlib_module_names) <= {"sitecustomize", "gpu_workbench_agent", "torch"}


def lines_of_code(path: Path) -> int:
    """Without blank lines, comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(
        number not in told and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(lines, 1)
    )


def test_it_is_small_and_its_first_folder_holds_nothing_else() -> None:
    at_start = [path for path in SOURCES if path.stem not in LATER]
    assert sum(map(lines_of_code, at_start)) <= 880
    assert len(SOURCES) - len(at_start) == len(LATER)
    assert {path.name for path in START_FOLDER.iterdir()} <= {"sitecustomize.py", "__pycache__"}
