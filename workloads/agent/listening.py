"""The agent's start in a process, and its socket, to which gauges connect at no cost.

One thread blocks until a client connects. It makes no CUDA call: the training thread carries out
requests at its next step. Only the stacks of all threads are read at once.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from importlib import import_module
from multiprocessing.util import Finalize
from typing import Any, Callable

from . import REHEARSE
from .address import LONGEST_LINE, open_socket_folder, place, read_peer
from .agent import FOLDER, Agent

MOST_CLIENTS = 8
MOST_LINES = 16
"""Most lines to handle for a client at a time."""
PAUSE_S = 0.01
"""Pause after each turn, so that requests never starve the program's threads."""
WAIT_S = 2.0
"""Wait for a step to carry out a request; after it, the main thread does, between bytecodes."""
_PR_SET_PTRACER = 0x59616D61


class Listening:
    """The listening socket and its clients."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._name = agent.process + ".sock"
        try:
            os.mkdir(place(), 0o700)
        except FileExistsError:
            pass
        self._folder = open_socket_folder(place())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The previous program in this process did not come to its end.
            os.unlink(self._name, dir_fd=self._folder)
        except FileNotFoundError:
            pass
        # Use the checked folder's descriptor: its path may change, and may be too long.
        self._socket.bind("/proc/self/fd/%d/%s" % (self._folder, self._name))
        os.chmod(self._name, 0o600, dir_fd=self._folder)
        self._socket.listen(MOST_CLIENTS)
        self._socket.setblocking(False)
        self._is_open = True
        self._clients: dict[socket.socket, bytes] = {}
        self._asked_at = 0.0
        self._pending: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._run_pending)
        _thread.start_new_thread(self._serve, ())

    def close(self) -> None:
        """Close the inherited descriptors in a fork; they stay open in the parent.

        In a fork of the fork, the same numbers belong to other files.
        """
        if self._is_open:
            self._is_open = False
            for connection in [self._socket, *self._clients]:
                connection.close()
            os.close(self._folder)

    def end(self) -> None:
        """Stop at the process's end."""
        if self._is_open:
            self._is_open = False
            os.unlink(self._name, dir_fd=self._folder)

    # ---- the thread ----

    def _serve(self) -> None:
        # A signal in this thread would not wake the thread that waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while self._agent.alive:
                self._wait()
        except Exception as error:
            if self._agent.alive:
                self._agent.log_event("trouble", doing="listening", text=repr(error)[:500])
                self._agent.run_guarded(self.close)

    def _wait(self) -> None:
        waits = bool(self._agent.waiting)
        # Not select, which supports no descriptor above 1023.
        poll = select.poll()
        by_number = {
            connection.fileno(): connection for connection in (self._socket, *self._clients)
        }
        for number in by_number:
            poll.register(number, select.POLLIN)
        ready = poll.poll(WAIT_S * 1000 if waits else None)
        if waits and self._agent.waiting and time.monotonic() - self._asked_at >= WAIT_S:
            self._asked_at = time.monotonic()
            ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
        for number, _ in ready:
            readable = by_number[number]
            if readable is self._socket:
                self._accept()
            elif not self._receive(readable):
                del self._clients[readable]
                readable.close()
        time.sleep(PAUSE_S)

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        pid, user = read_peer(connection)
        if user not in (os.getuid(), 0) or len(self._clients) >= MOST_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection] = b""
        # Under Yama, the gauge and its children need this permission to read the process.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)

    def _receive(self, client: socket.socket) -> bool:
        """Receive a client's data, and return whether to keep the client."""
        try:
            data = client.recv(LONGEST_LINE)
            *lines, rest = (self._clients[client] + data).split(b"\n")
            if not data or len(rest) > LONGEST_LINE or len(lines) > MOST_LINES:
                return False
            self._clients[client] = rest
            for line in lines:
                answer = json.dumps(self._answer(line)).encode() + b"\n"
                if client.send(answer) != len(answer):
                    return False  # it does not read
        except OSError:
            return False
        return True

    def _answer(self, line: bytes) -> dict[str, Any]:
        agent = self._agent
        requests = {
            "state": None,
            "snapshot": agent.write_requested_snapshot,
            "record": agent.record,
            "record no more": agent.stop_recording,
            "end rehearsal": agent.end_rehearsal,
        }
        try:
            request = json.loads(line)["ask"]
            if request == "stacks":
                return self._stacks()
            work = requests[request]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"refused": "not a request"}
        if work is not None:
            if work not in agent.waiting:
                agent.waiting.append(work)
            agent.at_next_step = True
            self._asked_at = time.monotonic()
        return {
            "identity": agent.process,
            "program": agent.program,
            "run": agent.run,
            "steps": agent.steps,
            "ooms": agent.ooms,
            "snapshots": agent.snapshots,
            "recording": agent.recording,
            "waiting": len(agent.waiting),
        }

    def _stacks(self) -> dict[str, Any]:
        """Answer at once, from this thread: the program's own may be stuck in a C call."""
        # A process without requests never loads it.
        from .stacks import stacks_now

        agent = self._agent
        return dict(stacks_now(FOLDER), identity=agent.identity, run=agent.run, steps=agent.steps)

    # ---- the main thread, between two bytecodes ----

    def _run_pending(self, _nothing: Any) -> int:
        agent = self._agent
        try:
            if agent.alive:
                agent.carry_out()
        except KeyboardInterrupt:
            # The exception is the program's, and would end here.
            _thread.start_new_thread(_thread.interrupt_main, ())
        return 0


def begin(run: str, entries: int) -> None:
    """Start within the process's own first CUDA call, or later.

    Args:
        run: the run's folder.
        entries: entries of torch's memory history from here on; 0 for no history.
    """
    torch = sys.modules["torch"]
    agent = Agent(torch, run)
    process = dict(identity=agent.identity, pid=os.getpid(), host=os.uname().nodename)
    process["program"] = agent.program
    python, version = sys.version.partition(" ")[0], str(getattr(torch, "__version__", ""))
    agent.log_event("begin", rank=os.environ.get("RANK"), torch=version, python=python, **process)

    def count_steps() -> None:
        # A plain function, since methods accept no attributes.
        def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
            agent.stepped(optimizer, args, kwargs)

        stepped._torchdynamo_disable = True  # type: ignore[attr-defined]
        import_module("torch.optim.optimizer").register_optimizer_step_post_hook(stepped)

    def observe_ooms() -> None:
        torch._C._cuda_attach_out_of_memory_observer(agent.out_of_memory)

    def listen() -> None:
        listening = Listening(agent)
        at_end(listening.end)
        os.register_at_fork(after_in_child=partial(agent.run_guarded, listening.close))

    def at_end(work: Callable[[], None]) -> None:
        """Run the work at exit, in reverse order of registration; possibly twice."""
        atexit.register(agent.run_guarded, work)
        # A multiprocessing child may leave by os._exit after its own finalizers.
        Finalize(None, agent.run_guarded, (work,), exitpriority=0)

    agent.run_guarded(count_steps)
    agent.run_guarded(observe_ooms)
    if entries:
        agent.run_guarded(agent.record, entries)
    agent.run_guarded(listen)
    at_end(agent.ended)
    if REHEARSE in os.environ:
        # A process outside a rehearsal never loads it. It ends before the agent does.
        rehearsal = import_module(__package__ + ".rehearsal")
        agent.run_guarded(rehearsal.begin, agent, at_end)
    os.register_at_fork(after_in_child=agent.forget)
