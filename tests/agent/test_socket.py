"""The socket of a watched process: what it answers, and what costs it nothing."""

from __future__ import annotations

import functools
import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.waiting import until
from tui.allocators.agents import AgentConnections
from tui.watch.runs.agents import Agents
from workloads.agent import identity, listening
from workloads.agent.address import LONGEST_LINE, open_socket_folder, place
from workloads.agent.agent import Agent
from workloads.agent.listening import MOST_CLIENTS, Listening


@functools.cache
def optimizer() -> torch.optim.Optimizer:
    """Return an optimizer. The first imports the compiler: not while tests are collected."""
    return torch.optim.SGD([torch.zeros(1)], lr=0.1)


def torch_with(calls: list[Any], *, recorded: bool = False) -> Any:
    """As much of torch as the requests need; it notes in which thread it is called."""

    def snapshot() -> Any:
        calls.append(("snapshot", threading.current_thread()))
        return {"segments": [], "device_traces": [[]]}

    def record(*_words: Any, **more: Any) -> None:
        calls.append((more["context"], threading.current_thread()))

    memory = SimpleNamespace(_snapshot=snapshot, _record_memory_history=record)
    return SimpleNamespace(
        cuda=SimpleNamespace(
            memory=memory, device_count=lambda: 1, memory_allocated=lambda _device: 0
        ),
        Tensor=torch.Tensor,
        _C=SimpleNamespace(
            _cuda_isHistoryEnabled=lambda: recorded,
            TensorBase=torch._C.TensorBase,
            DisableTorchFunction=torch._C.DisableTorchFunction,
        ),
    )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a folder with a short path: a socket's path has room for about a hundred bytes."""
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name)


@pytest.fixture
def listener(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    assert runtime
    monkeypatch.setattr("workloads.agent.agent.import_module", lambda _name: None)
    agent = Agent(torch_with([]), str(tmp_path / "run"))
    made = Listening(agent)
    yield made
    agent.ended()
    made.end()


@pytest.fixture
def agent(listener: Listening) -> Agent:
    return listener._agent


@pytest.fixture
def agents() -> Iterator[Agents]:
    found = Agents()
    yield found
    found.close()


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def send_until_refused(connection: socket.socket, data: bytes) -> None:
    for _ in range(100_000):
        connection.sendall(data)


def connected() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(f"{place()}/{identity()}.sock")
    return connection


def answers(connection: socket.socket, line: bytes) -> dict[str, Any]:
    connection.sendall(line + b"\n")
    found: dict[str, Any] = json.loads(connection.makefile().readline())
    return found


def test_the_folder_and_the_socket_are_this_user_s_alone(listener: Listening, agent: Agent) -> None:
    assert mode(place()) == 0o700
    assert mode(f"{place()}/{agent.identity}.sock") == 0o600
    assert agent.identity == identity(os.getpid())
    listener.end()
    assert names(place()) == []


@pytest.mark.parametrize("kind", ["open", "link", "file", "another's"])
def test_a_folder_that_others_could_write_to_is_refused(
    kind: str, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Path(place()).exists()
    folder = Path(place())
    if kind == "link":
        (runtime / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(runtime / "elsewhere")
    elif kind == "file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o700)
    if kind == "open":
        folder.chmod(0o770)
    if kind == "another's":
        monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(OSError, match=r".+"):
        open_socket_folder(place())
    agent = Agent(torch_with([]), str(tmp_path / "run"))

    def listen() -> None:
        Listening(agent)

    agent.run_guarded(listen)
    assert '"trouble"' in next((tmp_path / "run").glob("*.jsonl")).read_text()
    assert Agents().states() == []


def test_a_gauge_receives_steps_and_waiting_requests(agent: Agent, agents: Agents) -> None:
    agent.stepped(optimizer(), (), {})
    (state,) = agents.states()
    assert (state.pid, state.steps, state.run) == (os.getpid(), 1, agent.run)
    asked = agents.request(state.identity, "snapshot")
    assert asked is not None
    assert asked.waiting == 1
    assert not any(path.stat().st_size for path in Path(agent.run).iterdir())
    agent.stepped(optimizer(), (), {})
    (path,) = Path(agent.run).glob("snapshot-*.pickle")
    assert path.stat().st_mode & 0o777 == 0o600
    (state,) = agents.states()
    assert (state.steps, state.snapshots, state.waiting) == (2, 1, 0)


def test_what_is_asked_is_done_on_the_thread_that_trains(agent: Agent, agents: Agents) -> None:
    calls: list[Any] = []
    agent.torch = torch_with(calls)
    agents.states()
    agents.request(agent.identity, "record")
    agents.request(agent.identity, "snapshot")
    agents.request(agent.identity, "snapshot")
    agents.request(agent.identity, "record no more")
    trains = threading.Thread(target=agent.stepped, args=(None, (), {}))
    trains.start()
    trains.join()
    # The same twice is once; nothing is switched off but stacks.
    assert calls == [("all", trains), ("snapshot", trains), (None, trains)]


def test_without_steps_the_main_thread_does_it_in_between(
    agent: Agent, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "WAIT_S", 0.05)
    calls: list[Any] = []
    agent.torch = torch_with(calls)
    agents.states()
    agents.request(agent.identity, "snapshot")
    until(lambda: calls)
    assert calls == [("snapshot", threading.main_thread())]


def test_a_history_of_the_user_s_is_left_alone(agent: Agent) -> None:
    calls: list[Any] = []
    agent.torch = torch_with(calls, recorded=True)
    agent.waiting += [agent.record, agent.stop_recording]
    agent.carry_out()
    assert calls == []
    text = next(Path(agent.run).glob("*.jsonl")).read_text()
    assert "the program records its own history" in text
    assert "not this agent's" in text


JUNK = (b"", b"x", b"[]", b"{}", b'{"ask": 5}', b'{"ask": []}', b"\xff\x00", b"[" * 5000, b"null")


def test_junk_is_refused_and_the_next_request_is_answered(agent: Agent) -> None:
    connection = connected()
    for line in (*JUNK, b'{"ask": "exec", "path": "/etc/passwd"}'):
        assert answers(connection, line) == {"refused": "not a request"}
    assert answers(connection, b'{"ask": "state"}')["identity"] == agent.identity
    connection.close()


def test_endless_lines_floods_and_peers_that_do_not_read_are_left(
    agent: Agent, agents: Agents
) -> None:
    endless, flood, deaf = connected(), connected(), connected()
    line = b'{"ask": "state"}\n'
    for connection, data in ((endless, b"x" * LONGEST_LINE), (flood, line * 500), (deaf, line)):
        with pytest.raises(OSError, match=r".+"):
            send_until_refused(connection, data)
    (state,) = agents.states()
    assert state.identity == agent.identity
    for connection in (endless, flood, deaf):
        connection.close()


def test_more_clients_than_there_is_room_for_are_closed(agent: Agent) -> None:
    many = [connected() for _ in range(MOST_CLIENTS)]
    for each in many:
        assert answers(each, b'{"ask": "state"}')["steps"] == 0
    one_more = connected()
    assert one_more.recv(1) == b""
    for each in many:
        each.close()
    # Each that leaves makes room.
    until(lambda: _answered())
    assert agent.alive


def _answered() -> bool:
    connection = connected()
    try:
        return "steps" in answers(connection, b'{"ask": "state"}')
    except (OSError, ValueError):
        return False
    finally:
        connection.close()


def test_another_user_is_left(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.alive
    monkeypatch.setattr(listening, "read_peer", lambda _connection: (os.getpid(), 4242))
    assert connected().recv(1) == b""


def test_a_socket_that_another_process_holds_is_not_believed(
    agent: Agent, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.allocators.agents.read_peer", lambda _connection: (1, os.getuid()))
    assert agents.states() == []
    assert agent.alive


def test_what_a_killed_process_has_left_is_taken_away(agent: Agent, agents: Agents) -> None:
    host = agent.identity.rsplit("-", 2)[0]
    for name in (f"{host}-4194305-7.sock", "elsewhere-4194305-7.sock"):
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(f"{place()}/{name}")
        stale.close()
    agents.states()
    # One of another container with the same folder is not known to be gone.
    assert names(place()) == sorted(["elsewhere-4194305-7.sock", f"{agent.identity}.sock"])


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_fork_holds_no_socket(listener: Listening) -> None:
    inherited = [listener._socket.fileno(), listener._folder]
    pid = os.fork()
    if pid == 0:
        open_ones = 1
        try:
            listener.close()
            open_ones = sum(_is_open(each) for each in inherited)
        finally:
            os._exit(open_ones)
    assert os.waitpid(pid, 0)[1] == 0
    assert _answered()


def test_what_a_fork_opens_is_left_by_the_next_fork(listener: Listening) -> None:
    pid = os.fork()
    if pid == 0:
        lost = 1
        try:
            listener.close()
            # These have the numbers that have become free.
            opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
            listener.close()
            listener.end()
            lost = sum(not _is_open(each) for each in opened)
        finally:
            os._exit(lost)
    assert os.waitpid(pid, 0)[1] == 0
    assert _answered()


def test_it_is_one_thread_that_nobody_counts(agent: Agent) -> None:
    assert agent.alive
    # Others of this process may end meanwhile.
    before, tasks = set(threading.enumerate()), set(names("/proc/self/task"))
    made = Listening(SimpleNamespace(identity="x-1-1", process="x-1-1", alive=True, waiting=[]))  # type: ignore[arg-type]
    until(lambda: len(set(names("/proc/self/task")) - tasks) == 1)
    assert set(threading.enumerate()) <= before
    made.end()


def test_a_watch_reads_the_steps_of_the_processes_that_have_an_agent(agent: Agent) -> None:
    known, own = AgentConnections(), os.getpid()
    assert {pid: each.steps for pid, each in known.read([own, 1]).items()} == {own: 0}
    agent.stepped(optimizer(), (), {})
    assert {pid: each.steps for pid, each in known.read([own]).items()} == {own: 1}
    assert known.read([]) == {}


def test_without_any_agent_there_are_no_steps(runtime: Path) -> None:
    assert runtime
    assert AgentConnections().read([os.getpid()]) == {}
