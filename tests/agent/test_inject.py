"""The agent, put into a process that runs already: by Python itself, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import indent

import pytest

from tests import waiting
from tests.agent.interpreters import others
from tests.agent.programs import ENDS_AFTER_AUTOGRAD
from tui.cli.program import parse
from tui.kit.command_line.output import UsageError
from tui.watch.cli.options import WatchOptions
from tui.watch.cli.processes import inject_agent
from tui.watch.cli.watch import watch
from tui.watch.runs import injection
from tui.watch.runs.agents import Agents
from tui.watch.runs.injection import (
    CannotInjectError,
    check_injection,
    injected_script,
    target_of,
)
from tui.watch.runs.process_logs import joined, process_logs_in, read_folder

ROOT = Path(__file__).parents[2]
until = partial(waiting.until, timeout_s=100)
PYTHONS = [
    sys.executable,
    *(pytest.param(path, marks=pytest.mark.slow) for path in others().values()),
]

# As much of torch as the agent asks of it, with CUDA in use.
TORCH = """
import sys, time, types
def module(name, **members):
    sys.modules[name] = made = types.ModuleType(name)
    made.__dict__.update(members)
    return made
class Optimizer:
    param_groups = ()
hooks = []
torch = module("torch", __version__="2.13.0")
torch._C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=lambda observer: None)
module("torch.optim")
module("torch.optim.optimizer", register_optimizer_step_post_hook=hooks.append)
torch.cuda = module("torch.cuda", _lazy_call=lambda work: work())
"""
TRAINS = """
print("ready", flush=True)
while sys.stdin.readable() and not stop():
    for hook in hooks:
        hook(Optimizer(), (), {})
    time.sleep(0.01)
print("ended", threading.active_count(), len(hooks), names == sorted(globals()))
"""
# Its standard input is a pipe, whose end ends it.
STOP = """
import select, threading
def stop():
    return bool(select.select([sys.stdin], [], [], 0)[0])
names = hook = None
names = sorted(globals())
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "state"


@contextmanager
def running(program: str, python: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    """Start a process, wait until it is ready, and end it by closing its standard input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([python, "-c", program], text=True, **pipes)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def steps_of(pid: int) -> int | None:
    agents = Agents()
    try:
        return next((each.steps for each in agents.states() if each.pid == pid), None)
    finally:
        agents.close()


@pytest.mark.parametrize("python", [sys.executable, *others().values()])
def test_the_script_that_python_itself_executes(python: str, tmp_path: Path) -> None:
    run = tmp_path / 'it\'s "here" \\n'
    run.mkdir()
    (run / "inject.py").write_text(injected_script(run, 0))
    takes = f"{TORCH}{STOP}exec(compile(open({str(run / 'inject.py')!r}).read(), 'x', 'exec'))\n"
    with running(takes + "hooks[0](Optimizer(), (), {})" + TRAINS, python) as process:
        out, errors = process.communicate("\n")
    assert (out.startswith("ended 1 1"), errors) == (True, "")
    (left,) = process_logs_in(run)
    assert left.ended
    assert (left.steps or 0) >= 1
    assert not (run / "agent-errors.log").exists()


def test_a_process_that_has_the_agent_is_not_given_a_second_one(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inject.py").write_text(injected_script(tmp_path, 0))
    takes = f"exec(compile(open({str(tmp_path / 'inject.py')!r}).read(), 'x', 'exec'))\n"
    with running(TORCH + STOP + takes + TRAINS) as process:
        until(lambda: steps_of(process.pid))
        inject_agent(process.pid, 0)
        said = f"the agent is in process {process.pid} already; its run is {tmp_path}"
        assert said in capsys.readouterr().err
    assert not (state / "runs").exists()


def test_a_program_that_executes_itself_again_loses_no_oom_and_no_snapshot(
    tmp_path: Path,
) -> None:
    takes = f"exec(compile(open({str(tmp_path / 'inject.py')!r}).read(), 'x', 'exec'))\n"
    (tmp_path / "inject.py").write_text(injected_script(tmp_path, 0))
    program = tmp_path / "program.py"
    program.write_text(f"import os\n{TORCH}{EXECUTES_ITSELF_AGAIN.replace('TAKES', takes)}")
    done = subprocess.run(
        [sys.executable, str(program), "0"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    contents = read_folder(tmp_path)
    assert contents.skipped == ()
    first = contents.logs[0]
    assert [each.program for each in contents.logs] == [1, 2, 3, 4]
    assert len({each.pid for each in contents.logs}) == 1
    assert [(each.replaced, each.ended) for each in contents.logs] == [
        *[(True, False)] * 3,
        (False, True),
    ]
    assert [len(each.ooms) for each in contents.logs] == [1, 1, 1, 1]
    paths = {oom.snapshot for each in contents.logs for oom in each.ooms}
    assert len(paths - {None}) == 4
    assert "executed another program" in first.ooms[0].why_not_known
    # Each of them listens; of this torch no inventory can be taken.
    troubles = [trouble for each in contents.logs for trouble in each.troubles]
    assert [each for each in troubles if not each.startswith("take_inventory")] == []
    whole = joined(contents.logs)
    assert ([oom.number for oom in whole.ooms], whole.oom_count) == ([1, 2, 3, 4], 4)


EXECUTES_ITSELF_AGAIN = """
torch.cuda.memory = types.SimpleNamespace(_snapshot=lambda: {"device_traces": [[]]})
torch.cuda.memory_allocated = lambda _device: 5
torch.cuda.memory_stats = lambda _device: {}
torch.cuda.device_count = lambda: 1
torch.Tensor = torch.nn = None
observers = []
torch._C._cuda_attach_out_of_memory_observer = observers.append
TAKES
hooks[0](Optimizer(), (), {})
observers[0](0, 1 << 30, 1 << 33, 7)
if int(sys.argv[1]) < 3:
    os.execv(sys.executable, [sys.executable, __file__, str(int(sys.argv[1]) + 1)])
"""
ENDS = {
    "fork": """
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
""",
    "spawn": """
import multiprocessing
child = multiprocessing.get_context("spawn").Process(target=work)
child.start()
child.join()
""",
}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("how", ENDS)
def test_a_fork_and_a_process_of_multiprocessing_end_without_trouble(
    how: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "inject.py").write_text(injected_script(tmp_path, 0))
    program = tmp_path / "program.py"
    program.write_text(
        f"import os\n{TORCH}\ndef work():\n"
        f"    exec(compile(open({str(tmp_path / 'inject.py')!r}).read(), 'x', 'exec'))\n"
        f"if __name__ == '__main__':\n    work()\n{indent(ENDS[how], '    ')}"
    )
    subprocess.run([python, str(program)], check=True)
    found = process_logs_in(tmp_path)
    assert [each.troubles for each in found] == [()] * (1 if how == "fork" else 2)
    assert all(each.ended for each in found)
    assert not (tmp_path / "agent-errors.log").exists()


def test_before_torch_is_imported_it_sleeps_and_what_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "inject.py").write_text(injected_script(tmp_path, 0))
    takes = f"exec(compile(open({str(tmp_path / 'inject.py')!r}).read(), 'x', 'exec'))\n"
    twice = "import sys\n" + takes + takes + "print(len(sys.meta_path))\n"
    broken = "sys.modules['torch.cuda'] = None\n" + takes + "print('goes on')\n"
    done = subprocess.run(
        [sys.executable, "-c", twice + broken], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == ["goes on"]
    assert done.stderr == ""
    assert "_lazy_call" in (tmp_path / "agent-errors.log").read_text()
    assert process_logs_in(tmp_path) == []


# ---- where it is refused ----


def test_an_older_python_is_refused_with_an_alternative() -> None:
    own = target_of(os.getpid())
    assert own.version == sys.version_info[:2]
    for version, says in (
        ((3, 13), "runs Python 3.13, which accepts no injected code"),
        ((3, 7), "3.8 is the oldest"),
    ):
        with pytest.raises(CannotInjectError, match=says):
            check_injection(replace(own, version=version))
    check_injection(replace(own, version=(3, 14)))


def test_the_target_s_own_interpreter_is_asked_and_its_refusal_is_reported(tmp_path: Path) -> None:
    target = replace(target_of(os.getpid()), pid=2**22 + 1)
    command = injection.remote_exec_command(target, tmp_path / "x.py")
    assert command[0] == target.program == os.path.realpath(sys.executable)
    assert command[-3:] == [
        "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
        str(target.pid),
        str(tmp_path / "x.py"),
    ]
    # Below 3.14 there is no such function, from then on no such process.
    with pytest.raises(CannotInjectError, match=r"^python3.*Error: .+"):
        injection.inject(target, tmp_path, 0)


def test_what_is_no_python_or_not_there_is_refused() -> None:
    with pytest.raises(CannotInjectError, match="there is no process 4194305"):
        target_of(4194305)
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        until(
            lambda: (
                Path(f"/proc/{process.pid}/exe").readlink().name
                != Path(sys.executable).resolve().name
            )
        )
        with pytest.raises(CannotInjectError, match="which is no Python interpreter"):
            target_of(process.pid)
    finally:
        process.communicate()


def test_another_user_s_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    with pytest.raises(CannotInjectError, match="run by another user"):
        target_of(os.getpid())


def test_no_debugger_is_offered() -> None:
    with pytest.raises(UsageError, match="--inject"):
        parse(["watch", "--pid", "5", "--inject=gdb"])


def test_it_is_for_a_process_that_runs() -> None:
    with pytest.raises(UsageError, match="give the process with --pid"):
        watch(WatchOptions(inject=True))
    with pytest.raises(UsageError, match="are for a running process"):
        watch(WatchOptions(inject=True, pid=5, command=("python", "train.py"), dashes=True))


TRAINING = (
    ENDS_AFTER_AUTOGRAD
    + """
import sys, time, torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    time.sleep(0.01)
step()
print("ready", flush=True)
import select
exec(compile(open({script!r}).read(), "inject.py", "exec"))  # as Python does between two bytecodes
while not select.select([sys.stdin], [], [], 0)[0]:
    step()
def grab():
    return torch.empty(1 << 41, dtype=torch.uint8, device="cuda")
grab()
"""
)


@pytest.mark.simulated_gpu
@pytest.mark.timeout(240)
def test_a_training_that_ran_already_has_its_oom_explained(tmp_path: Path) -> None:
    script = tmp_path / "inject.py"
    script.write_text(injected_script(tmp_path, 0))
    with running(TRAINING.format(script=str(script))) as process:
        until(lambda: (steps_of(process.pid) or 0) > 3)
        process.communicate("\n")
        assert process.returncode == 1
    (left,) = process_logs_in(tmp_path)
    (oom,) = left.ooms
    assert (oom.request, oom.handled) == (1 << 41, False)
    assert oom.snapshot is not None
    assert oom.where is not None
