"""What a watched process does for the watch: it counts steps, and keeps what an OOM leaves.

Nothing here may change the run. Every error is caught and written to the run's folder; nothing is
put in the place of something of torch's or of the program's; peaks are not reset. An interrupt of
the user's is no error and goes on its way.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import pickle
import sys
import threading
import time
from importlib import import_module
from multiprocessing.util import Finalize
from typing import Any, Callable

from . import ENTRIES, identity
from .listening import Listening

FIRST = 3
"""OOMs whose snapshots are kept; of the later ones, the newest's is."""
SHARE = 20
"""After the first ones a snapshot is taken where none was for this many times its duration."""
LONGEST_S = 60.0
LEAST_FREE = 256 << 20
"""Bytes of the disk that are left to the program."""
MOST_TOLD = 1000
"""OOMs that have a line of their own."""
_LONGEST_TEXT = 8000
_MOST_FRAMES = 64
_CHECK = 16 << 20


class GivenUpError(Exception):
    """A snapshot that is not written to its end, and why."""


class _Writer:
    """A file that is given up where it takes too long or too much of the disk."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._until_check = 0

    def write(self, data: Any) -> int:
        """Called by pickle."""
        if time.monotonic() > self._deadline:
            raise GivenUpError("it took longer than %d s" % LONGEST_S)
        view = memoryview(data).cast("B")
        size = len(view)
        self._until_check -= size
        if self._until_check < 0:
            self._until_check = _CHECK
            disk = os.fstatvfs(self._descriptor)
            if disk.f_bavail * disk.f_frsize < LEAST_FREE + size:
                raise GivenUpError("less than %d MiB of the disk are free" % (LEAST_FREE >> 20))
        while view:
            view = view[os.write(self._descriptor, view) :]
        return size


class Agent:
    """One for each process that uses CUDA; its methods may be called by any thread."""

    def __init__(self, torch: Any, run: str) -> None:
        self.torch = torch
        self.run = run
        self.identity = identity()
        self.alive = True
        """Not in a fork of the process."""
        self.steps = 0
        """Steps of all optimizers together."""
        self.ooms = 0
        self.snapshots = 0
        """Those that were asked for."""
        self.recording = False
        self.entries = 0
        """Of the history that this agent has switched on; 0 where it never has."""
        self.at_next_step = False
        self.waiting: list[Callable[[], None]] = []
        """What the next step is to carry out."""
        self._open: int | None = None
        """The newest OOM, until the program has gone on."""
        self._open_thread = 0
        self._lock = threading.Lock()
        self._busy: int | None = None
        """The thread that takes a snapshot."""
        self._ended_at, self._took = 0.0, 0.0
        self._newest = ""
        self._listening: Listening | None = None

    # ---- what is left in the run's folder ----

    def tell(self, event: str, **facts: Any) -> None:
        """Append a line to this process's file; where that cannot be, there is nobody to tell."""
        line = json.dumps(dict(event=event, at=time.time(), **facts)) + "\n"
        try:
            os.makedirs(self.run, mode=0o700, exist_ok=True)
            path = os.path.join(self.run, self.identity + ".jsonl")
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line.encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)
        except OSError:
            pass

    def guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something of which an error is told and no more."""
        try:
            work(*arguments)
        except Exception as error:
            self.tell("trouble", doing=work.__name__, text=_in_words(error))

    def dump(self, name: str, oom: dict[str, Any] | None = None) -> None:
        """Write a snapshot, whole or not at all.

        Args:
            name: of the file in the run's folder.
            oom: the event that ends the trace of its device, where torch has recorded none.

        Raises:
            OSError: it cannot be written.
            GivenUpError: it would take too much.
        """
        began = time.monotonic()
        path = os.path.join(self.run, name)
        collects = gc.isenabled()
        # Collecting would go through the snapshot again and again, and run what is not ours.
        gc.disable()
        descriptor = None
        try:
            os.makedirs(self.run, mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(path + ".part", flags, 0o600)
            snapshot = self.torch.cuda.memory._snapshot()
            if oom is not None:
                _complete(snapshot, oom)
            pickle.dump(snapshot, _Writer(descriptor, began + LONGEST_S))
            os.rename(path + ".part", path)
        except BaseException:
            if descriptor is not None:
                os.unlink(path + ".part")
            raise
        finally:
            if descriptor is not None:
                os.close(descriptor)
            if collects:
                gc.enable()
            self._ended_at = time.monotonic()
            self._took = self._ended_at - began

    # ---- steps ----

    def stepped(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Called by torch after each step of an optimizer."""
        self.steps += 1
        if self.at_next_step and self.alive:
            self.at_next_step = False
            self.guarded(self._went_on)
            self.carry_out()

    def carry_out(self) -> None:
        """What was asked for, on the training thread or between two bytecodes of the main one."""
        while self.waiting:
            try:
                work = self.waiting.pop(0)
            except IndexError:
                return  # another thread was first
            self.guarded(work)

    def _went_on(self) -> None:
        number, self._open = self._open, None
        if number is not None:
            self.tell("handled", oom=number, step=self.steps)

    # ---- out of memory ----

    def out_of_memory(self, device: int, asked: int, limit: int, free: int) -> None:
        """Called by torch before an OOM is raised, in the thread that has asked."""
        if self.alive and self._busy != threading.get_ident():
            self.guarded(self._out_of_memory, device, asked, limit, free)

    def _out_of_memory(self, device: int, asked: int, limit: int, free: int) -> None:
        at = time.time()
        if not self._lock.acquire(timeout=LONGEST_S):
            return
        self._busy = threading.get_ident()
        try:
            if self._open_thread == self._busy:
                self._went_on()
            self.ooms += 1
            number = self.ooms
            quiet = time.monotonic() - self._ended_at
            takes = number <= FIRST or quiet >= SHARE * self._took
            if number <= MOST_TOLD or takes:
                cuda = self.torch.cuda
                frames = _frames()
                self.tell(
                    "oom",
                    oom=number,
                    happened=at,
                    step=self.steps,
                    device=device,
                    asked=asked,
                    limit=limit,
                    free=free,
                    allocated=cuda.memory_allocated(device),
                    reserved=cuda.memory_reserved(device),
                    thread=_thread(),
                    where="%s:%s" % (frames[0]["filename"], frames[0]["line"]) if frames else None,
                )
                self._open, self._open_thread = number, self._busy
                self.at_next_step = True
            if takes:
                self._keep(number, dict(device=device, size=asked, free=free, frames=frames))
        finally:
            self._busy = None
            self._lock.release()

    def _keep(self, number: int, oom: dict[str, Any]) -> None:
        name = "oom-%s-%d.pickle" % (self.identity, number)
        try:
            self.dump(name, oom)
        except Exception as error:
            self.tell("no snapshot", oom=number, text=_in_words(error))
            return
        self.tell("snapshot", oom=number, name=name, seconds=round(self._took, 4))
        if number > FIRST:
            if self._newest:
                os.unlink(os.path.join(self.run, self._newest))
            self._newest = name

    # ---- on demand ----

    def snapshot_now(self) -> None:
        """A snapshot that was asked for."""
        self.snapshots += 1
        name = "snapshot-%s-%d.pickle" % (self.identity, self.snapshots)
        self.dump(name)
        self.tell("snapshot", oom=None, name=name, step=self.steps, seconds=round(self._took, 4))

    def record(self, entries: int = ENTRIES) -> None:
        """Switch torch's memory history on; one that the program has switched on is left."""
        torch = self.torch
        if not self.entries and torch._C._cuda_isHistoryEnabled():
            raise GivenUpError("the program records its own history")
        if not self.entries:
            # The first snapshot with stacks would import it, in the middle of an OOM.
            import_module("torch._inductor.codecache")
            self.entries = entries
        torch.cuda.memory._record_memory_history(
            "all", context="all", stacks="python", max_entries=self.entries
        )
        self.recording = True
        self.tell("history", on=True, entries=self.entries, step=self.steps)

    def record_no_more(self) -> None:
        """Record no stacks from here on.

        Off altogether, or shorter, is not safe beside a thread that allocates: torch would free
        what that thread is about to write to.
        """
        if not self.recording:
            raise GivenUpError("the history is not this agent's")
        self.torch.cuda.memory._record_memory_history(
            "all", context=None, stacks="python", max_entries=self.entries
        )
        self.recording = False
        self.tell("history", on=False, entries=self.entries, step=self.steps)

    # ---- the end ----

    def ended(self) -> None:
        """At the interpreter's end: the exception that ended the program, if one did."""
        if self.alive:
            self.alive = False
            text, kind, ran_out = _last_exception()
            self.tell(
                "end", steps=self.steps, ooms=self.ooms, text=text, type=kind, out_of_memory=ran_out
            )

        if self._listening is not None:
            self._listening.end()

    def listen(self) -> None:
        """Open the socket."""
        self._listening = Listening(self)

    def forget(self) -> None:
        """In a fork: what is asked of torch there is nothing of the process that is watched."""
        self.alive = False
        if self._listening is not None:
            self.guarded(self._listening.close)


def begin(run: str, entries: int) -> Agent:
    """Start within the process's own first CUDA call, or later.

    Args:
        run: the folder of the run.
        entries: of torch's memory history, from here on; 0 for no history.
    """
    torch = sys.modules["torch"]
    agent = Agent(torch, run)
    agent.tell(
        "begin",
        identity=agent.identity,
        pid=os.getpid(),
        host=os.uname().nodename,
        rank=os.environ.get("RANK"),
        torch=str(getattr(torch, "__version__", "")),
        python=sys.version.partition(" ")[0],
    )

    def count_steps() -> None:
        # A function of its own: a method takes no attribute.
        def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
            agent.stepped(optimizer, args, kwargs)

        stepped._torchdynamo_disable = True  # type: ignore[attr-defined]
        import_module("torch.optim.optimizer").register_optimizer_step_post_hook(stepped)

    def observe_ooms() -> None:
        torch._C._cuda_attach_out_of_memory_observer(agent.out_of_memory)

    agent.guarded(count_steps)
    agent.guarded(observe_ooms)
    if entries:
        agent.guarded(agent.record, entries)
    agent.guarded(agent.listen)
    atexit.register(agent.guarded, agent.ended)
    if multiprocessing.parent_process() is not None:
        # Such a process leaves by os._exit, after these.
        Finalize(None, agent.guarded, (agent.ended,), exitpriority=0)
    os.register_at_fork(after_in_child=agent.forget)
    return agent


def _in_words(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, str(error)[:500])


def _frames() -> list[dict[str, Any]]:
    """The program's Python stack, innermost first, as torch writes stacks into a snapshot."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back  # type: ignore[assignment]
    found: list[dict[str, Any]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        found.append(dict(filename=code.co_filename, line=frame.f_lineno or 0, name=code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _thread() -> str | None:
    """The thread that has asked: ``main``, its name, or ``None`` for one of torch's own."""
    for thread in list(threading.enumerate()):
        if thread.ident == threading.get_ident():
            return "main" if thread is threading.main_thread() else thread.name
    return None


def _complete(snapshot: Any, oom: dict[str, Any]) -> None:
    """Put the OOM at the end of its device's trace, or its stack, where no history has it."""
    traces = snapshot.get("device_traces", ())
    if oom["device"] >= len(traces):
        return
    trace = traces[oom["device"]]
    recorded = [entry for entry in trace[-4:] if entry["action"] == "oom"]
    if not recorded:
        entry = dict(action="oom", device_free=oom["free"], size=oom["size"], stream=0)
        trace.append(dict(entry, time_us=time.time_ns() // 1000, frames=oom["frames"]))
    elif not recorded[-1].get("frames"):
        recorded[-1]["frames"] = oom["frames"]  # the history is kept without stacks


def _last_exception() -> tuple[str, str, bool]:
    """Text and class of what ended the program, and whether torch ran out of memory in it."""
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None) or sys.exc_info()[1]
    if not isinstance(last, BaseException):
        return "", "", False
    error: BaseException | None = last
    for _ in range(16):  # what was raised from it, or while it was handled
        if error is None:
            break
        if type(error).__name__ == "OutOfMemoryError":
            return str(error)[:_LONGEST_TEXT], type(error).__name__, True
        error = error.__cause__ or error.__context__
    return str(last)[:_LONGEST_TEXT], type(last).__name__, False
