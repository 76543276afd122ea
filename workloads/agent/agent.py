"""What a watched process does for the watch: it counts steps, and keeps what an OOM leaves.

Nothing here may change the run. Every error is caught and written to the run's folder; nothing is
put in the place of something of torch's or of the program's; peaks are not reset. An interrupt of
the user's is no error and goes on its way.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
import threading
import time
from importlib import import_module
from io import FileIO
from itertools import dropwhile, islice
from traceback import walk_stack, walk_tb
from typing import Any, Callable, Iterable

from . import ENTRIES, claim_program, identity, program_name
from .steps import StepCounter

FIRST = 3
"""OOMs whose snapshots are kept; of the later ones, the newest's is."""
SHARE = 20
"""After the first ones a snapshot is taken where none was for this many times its duration."""
LONGEST_S = 60.0
LEAST_FREE = 256 << 20
"""Bytes of the disk that are left to the program."""
MOST_TOLD = 1000
"""OOMs that have a line of their own."""
KEY = "gpu_workbench"
"""Under which a snapshot has the OOM's facts and the inventory."""
FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Of the agent: its own frames are left out of stacks."""
_MOST_SAMPLES = 64
_SAMPLING_SHARE = 100
"""A sample is due when so many times the last one's duration has passed."""
_LONGEST_TEXT = 8000
_MOST_FRAMES = 64
_MOST_RAISED = 16
_MOST_DEVICES = 64
DRIVER_OOM = "CUDA error: out of memory"
"""How torch begins the text of ``cudaErrorMemoryAllocation``, where its allocator raises no
``OutOfMemoryError``: https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAException.cpp"""
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
        """Write data as pickle asks; raise if it takes too long or too much of the disk."""
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
        self.process = identity()
        self.program = claim_program(run, self.process)
        self.identity = program_name(self.process, self.program)
        self.alive = True
        """Not in a fork of the process."""
        self._counter: StepCounter | None = StepCounter(torch)
        self.steps = 0
        """Iterations, by the optimizer with the most parameters."""
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
        self._samples: list[tuple[int, int, int]] = []
        """Device, step and bytes allocated after it, spread over the run."""
        self._sample_at = 0.0
        self._newest = ""

    # ---- what is left in the run's folder ----

    def _file(self, name: str, flags: int) -> int:
        """Open a file in the run's folder for writing; the folder is made where it has gone."""
        _make_private(self.run)
        flags |= os.O_WRONLY | os.O_CREAT
        return os.open(os.path.join(self.run, name), flags, 0o600)

    def tell(self, event: str, **facts: Any) -> None:
        """Append a line to this process's file; where that cannot be, there is nobody to tell."""
        line = json.dumps(dict(event=event, at=time.time(), **facts)) + "\n"
        try:
            with FileIO(self._file(self.identity + ".jsonl", os.O_APPEND), "a") as file:
                file.write(line.encode("utf-8", "backslashreplace"))
        except OSError:
            pass

    def run_guarded(self, work: Callable[..., None], *arguments: Any) -> None:
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
        descriptor = self._file(name + ".part", os.O_TRUNC)
        collects = gc.isenabled()
        # Collecting would go through the snapshot again and again, and run what is not ours.
        gc.disable()
        try:
            snapshot = self.torch.cuda.memory._snapshot()
            if oom is not None:
                _complete(snapshot, oom)
            pickle.dump(snapshot, _Writer(descriptor, began + LONGEST_S))
            os.rename(path + ".part", path)
        except BaseException:
            os.unlink(path + ".part")
            raise
        finally:
            os.close(descriptor)
            if collects:
                gc.enable()
            self._ended_at = time.monotonic()
            self._took = self._ended_at - began

    # ---- steps ----

    def stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Count a step; torch calls this after each step of an optimizer."""
        self.steps += 1
        if self._counter is not None:
            try:
                self._counter.count(optimizer)
                self.steps = self._counter.steps
            except Exception as error:
                # From here on all optimizers are counted together.
                self._counter = None
                self.tell("trouble", doing="count", text=_in_words(error))
        if time.monotonic() >= self._sample_at and self.alive:
            self.run_guarded(self._sample)
        if self.at_next_step and self.alive:
            self.at_next_step = False
            self.run_guarded(self._mark_survived)
            self.carry_out()

    def _sample(self) -> None:
        """Note what is allocated after this step, in at most a hundredth of the program's time."""
        began = time.monotonic()
        # Where the next lines raise there is no other sample: one trouble is told, not each step's.
        self._sample_at = float("inf")
        cuda = self.torch.cuda
        device = cuda.current_device()
        self._samples.append((device, self.steps, cuda.memory_allocated(device)))
        if len(self._samples) > _MOST_SAMPLES:
            # Every second one goes, the newest stays.
            del self._samples[-2::-2]
        now = time.monotonic()
        self._sample_at = now + _SAMPLING_SHARE * (now - began)

    def carry_out(self) -> None:
        """Run the waiting requests, on the training thread or between bytecodes of the main one."""
        while self.waiting:
            try:
                work = self.waiting.pop(0)
            except IndexError:
                return  # another thread was first
            self.run_guarded(work)

    def _mark_survived(self) -> None:
        number, self._open = self._open, None
        if number is not None:
            self.tell("handled", oom=number, step=self.steps)

    # ---- out of memory ----

    def out_of_memory(self, device: int, asked: int, limit: int, free: int) -> None:
        """Record an OOM; torch calls this before it raises one, in the thread that has asked."""
        if self.alive and self._busy != threading.get_ident():
            told = dict(device=device, asked=asked, limit=limit, free=free)
            self.run_guarded(self._out_of_memory, told, time.time())

    def _out_of_memory(self, told: dict[str, Any], at: float) -> None:
        if not self._lock.acquire(timeout=LONGEST_S):
            return
        self._busy = threading.get_ident()
        try:
            if self._open_thread == self._busy:
                self._mark_survived()
            self.ooms += 1
            number = self.ooms
            quiet = time.monotonic() - self._ended_at
            takes = number <= FIRST or quiet >= SHARE * self._took
            if number <= MOST_TOLD or takes:
                device = told["device"]
                told.update(self._held(device))
                frames = _frames()
                where = "%s:%s" % (frames[0]["filename"], frames[0]["line"]) if frames else None
                told.update(happened=at, step=self.steps, thread=_thread(), where=where)
                self.tell("oom", oom=number, **told)
                self._open, self._open_thread = number, self._busy
                self.at_next_step = True
            if takes:
                began = time.monotonic()
                found = self._inventory(number, device, told["allocated"])
                self._keep(number, dict(told, frames=frames, inventory=found))
                self._ended_at = time.monotonic()
                self._took = self._ended_at - began
        finally:
            self._busy = None
            self._lock.release()

    def _held(self, device: int) -> dict[str, int | None]:
        """Return what torch's allocator counts on a device, without a CUDA call."""
        stats = self.torch.cuda.memory_stats(device)
        return dict(
            allocated=stats.get("allocated_bytes.all.current", 0),
            requested=stats.get("requested_bytes.all.current"),
            reserved=stats.get("reserved_bytes.all.current", 0),
        )

    def _record_driver_oom(self, error: BaseException) -> None:
        """Note an OOM that torch's observer is not called for, by the exception that tells of it.

        The driver did not even tell torch how much memory is free, and what was asked for is in no
        text: both stay ``None``. No CUDA call is made.
        """
        self.ooms += 1
        device = self._find_retrying_device()
        walked = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
        frames = _format_frames(reversed(walked))
        where = "%s:%s" % (frames[0]["filename"], frames[0]["line"]) if frames else None
        told: dict[str, Any] = dict(device=device, asked=None, limit=None, free=None)
        told.update(
            self._held(device), happened=time.time(), step=self.steps, thread="main", where=where
        )
        self.tell("oom", oom=self.ooms, frames=frames, **told)

    def _find_retrying_device(self) -> int:
        """Return the device whose allocator has flushed its cache in vain most often.

        Before torch passes the driver's error on, it counts a retry and no OOM. Asking for the
        current device would be a CUDA call.
        """
        ranked = []
        for device in range(_MOST_DEVICES):
            try:
                stats = self.torch.cuda.memory_stats(device)
            except Exception:
                break  # torch has no such device
            retries = stats.get("num_alloc_retries", 0) - stats.get("num_ooms", 0)
            ranked.append((-retries, -stats.get("reserved_bytes.all.current", 0), device))
        return min(ranked)[2] if ranked else 0

    def _inventory(self, number: int, device: int, allocated: int) -> dict[str, Any] | None:
        """Return what Python knows of the device's memory, and write it as a line of its own."""
        try:
            # A process that never runs out loads nothing of it.
            from .inventory import take_inventory

            found = take_inventory(self.torch, device, allocated, FOLDER)
        except Exception as error:
            self.tell("trouble", doing="take_inventory", text=_in_words(error))
            return None
        samples = [each for each in self._samples if each[0] == device]
        found["steps"] = [dict(step=step, allocated=size) for _, step, size in samples]
        found["step"] = self.steps
        self.tell("inventory", oom=number, inventory=found)
        return found

    def _keep(self, number: int, oom: dict[str, Any]) -> None:
        name = "oom-%s-%d.pickle" % (self.identity, number)
        try:
            self.dump(name, oom)
        except Exception as error:
            self.tell("no snapshot", oom=number, text=_in_words(error))
            return
        self.tell("snapshot", oom=number, name=name, seconds=round(self._took, 4))
        if number > FIRST:
            previous, self._newest = self._newest, name
            if previous:
                os.unlink(os.path.join(self.run, previous))

    # ---- on demand ----

    def write_requested_snapshot(self) -> None:
        """Write a snapshot that was asked for."""
        self.snapshots += 1
        name = "snapshot-%s-%d.pickle" % (self.identity, self.snapshots)
        self.dump(name)
        self.tell("snapshot", oom=None, name=name, step=self.steps, seconds=round(self._took, 4))

    def record(self, entries: int = ENTRIES) -> None:
        """Switch torch's memory history on; one that the program has switched on is left."""
        if not self.entries:
            if self.torch._C._cuda_isHistoryEnabled():
                raise GivenUpError("the program records its own history")
            # The first snapshot with stacks would import it, in the middle of an OOM.
            import_module("torch._inductor.codecache")
            self.entries = entries
        self._record("all")

    def stop_recording(self) -> None:
        """Record no stacks from here on.

        Off altogether, or shorter, is not safe beside a thread that allocates: torch would free
        what that thread is about to write to.
        """
        if not self.recording:
            raise GivenUpError("the history is not this agent's")
        self._record(None)

    def _record(self, context: str | None) -> None:
        self.torch.cuda.memory._record_memory_history(
            "all", context=context, stacks="python", max_entries=self.entries
        )
        self.recording = context is not None
        self.tell("history", on=self.recording, entries=self.entries, step=self.steps)

    # ---- the end ----

    def ended(self) -> None:
        """At the interpreter's end: the exception that ended the program, if one did."""
        if self.alive:
            self.alive = False
            raised = _find_last_raised()
            refused = [error for error in raised if _is_driver_oom(error)]
            if refused:
                self.run_guarded(self._record_driver_oom, refused[0])
            self.tell("end", steps=self.steps, ooms=self.ooms, **_last_exception(raised))

    def forget(self) -> None:
        """In a fork: what is asked of torch there is nothing of the process that is watched."""
        self.alive = False


def _make_private(folder: str) -> None:
    """Make a folder and its missing parents, for the user alone, whatever the umask."""
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        if parent != folder:
            _make_private(parent)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass  # another process was first


def _in_words(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, str(error)[:500])


def _frames() -> list[dict[str, Any]]:
    """Return the program's Python stack, innermost first, as torch writes it into a snapshot."""
    stack = ((frame.f_code, line) for frame, line in walk_stack(sys._getframe()))
    return _format_frames(dropwhile(lambda place: place[0].co_filename == __file__, stack))


def _format_frames(stack: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the innermost frames of a stack of code and lines as plain data."""
    return [
        dict(filename=code.co_filename, line=line or 0, name=code.co_name)
        for code, line in islice(stack, _MOST_FRAMES)
    ]


def _thread() -> str | None:
    """Return the current thread: ``main``, its name, or ``None`` for one of torch's own."""
    if threading.get_ident() == threading.main_thread().ident:
        return "main"
    own = [each.name for each in threading.enumerate() if each.ident == threading.get_ident()]
    return own[0] if own else None


def _complete(snapshot: Any, oom: dict[str, Any]) -> None:
    """Put what is known of the OOM into the snapshot: its facts, and the inventory.

    It becomes the end of its device's trace, or its stack does, where no history has it.
    """
    names = ("device", "asked", "free", "limit", "allocated", "reserved", "step", "thread")
    facts = dict({name: oom[name] for name in names}, stack=oom["frames"])
    facts.update(pid=os.getpid(), rank=os.environ.get("RANK"))
    snapshot[KEY] = dict(oom=facts, inventory=oom["inventory"])
    traces = snapshot.get("device_traces", ())
    if oom["device"] < len(traces):
        trace = traces[oom["device"]]
        recorded = [entry for entry in trace[-4:] if entry["action"] == "oom"]
        if not recorded:
            entry = dict(action="oom", device_free=oom["free"], size=oom["asked"], stream=0)
            recorded = [dict(entry, time_us=time.time_ns() // 1000)]
            trace.extend(recorded)
        # The history may be kept without stacks.
        if not recorded[-1].get("frames"):
            recorded[-1]["frames"] = oom["frames"]


def _find_last_raised() -> list[BaseException]:
    """Return what ended the program, and what it was raised from or while handling."""
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None) or sys.exc_info()[1]
    chain: list[BaseException] = []
    while isinstance(last, BaseException) and len(chain) < _MOST_RAISED:
        chain.append(last)
        last = last.__cause__ or last.__context__
    return chain


def _is_driver_oom(error: BaseException) -> bool:
    """Tell whether it is the driver's own OOM: ``AcceleratorError``, in older torch its base.

    Only an error of exactly these classes is asked for its text, which runs no code of strangers.
    """
    kind = type(error)
    known = kind is RuntimeError or (
        kind.__name__ == "AcceleratorError" and kind.__module__.partition(".")[0] == "torch"
    )
    return known and str(error).startswith(DRIVER_OOM)


def _last_exception(chain: list[BaseException]) -> dict[str, Any]:
    """Text and class of what ended the program, and whether torch ran out of memory in it."""
    ran_out = [
        error
        for error in chain
        if type(error).__name__ == "OutOfMemoryError" or _is_driver_oom(error)
    ]
    if not chain:
        return dict(text="", type="", out_of_memory=False)
    told = (ran_out or chain)[0]
    text = str(told)[:_LONGEST_TEXT]
    return dict(text=text, type=type(told).__name__, out_of_memory=bool(ran_out))
