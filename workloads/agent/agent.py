"""The agent's work in a watched process: it counts steps, and records OOMs.

Nothing here may change the run. Every error is caught and written to the run's folder; the agent
replaces nothing of torch's or the program's, and does not reset peaks. A user's interrupt is no
error and passes through.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
import threading
import time
from functools import partial
from importlib import import_module
from io import FileIO
from itertools import dropwhile, islice
from traceback import walk_stack, walk_tb
from typing import Any, Callable, Iterable

from . import ENTRIES, claim_program, identity, program_name
from .steps import StepCounter

FIRST = 3
"""First OOMs, whose snapshots stay; of the later ones, only the newest snapshot stays."""
SHARE = 20
"""Later snapshots are taken after a pause of at least this many times the last one's duration."""
LONGEST_S = 60.0
LEAST_FREE = 256 << 20
"""Bytes of disk space reserved for the program."""
MOST_TOLD = 1000
"""Most OOMs with a line of their own."""
KEY = "gpu_workbench"
"""A snapshot's key for the OOM's facts and the inventory."""
FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The agent's folder; stacks omit frames from it."""
_MOST_SAMPLES = 64
_FIRST_SAMPLES = 32
"""Number of samples taken at every step, whatever they cost: a fast program may fail by then."""
_SAMPLING_SHARE = 100
"""A sample is due after this many times the shortest one's duration: a longer one was interrupted.
"""
_LONGEST_TEXT = 8000
_MOST_FRAMES = 64
_MOST_RAISED = 16
_MOST_DEVICES = 64
DRIVER_OOM = "CUDA error: out of memory"
"""The beginning of torch's text for ``cudaErrorMemoryAllocation``, where its allocator raises no
``OutOfMemoryError``: https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAException.cpp"""
_CHECK = 16 << 20


class GivenUpError(Exception):
    """An incomplete snapshot that was given up, with the reason."""


class _Writer:
    """A file that is given up if it takes too long or too much disk space."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._until_check = 0

    def write(self, data: Any) -> int:
        """Write data as pickle requires; raise if it takes too long or too much disk space."""
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
    """The agent of a process that uses CUDA; any thread may call its methods."""

    def __init__(self, torch: Any, run: str) -> None:
        self.torch = torch
        self.run = run
        self.process = identity()
        self.program = claim_program(run, self.process)
        self.identity = program_name(self.process, self.program)
        self.alive = True
        """``False`` in a fork of the process."""
        self._counter: StepCounter | None = StepCounter(torch)
        self.steps = 0
        """Iterations, counted by the optimizer with the most parameter elements."""
        self.ooms = 0
        self.snapshots = 0
        """Number of requested snapshots."""
        self.recording = False
        self.entries = 0
        """Entries of the history that this agent has switched on; 0 if it never has."""
        self.at_next_step = False
        self.waiting: list[Callable[[], None]] = []
        """Requests that the next step carries out."""
        self._open: dict[int, int] = {}
        """The newest OOM of each thread by the thread's id, until the program has continued."""
        self._lock = threading.Lock()
        self._busy: int | None = None
        """The thread that takes a snapshot."""
        self._ended_at, self._took = 0.0, 0.0
        self._samples: list[tuple[int, dict[int, int]]] = []
        """Steps with the bytes allocated on each device after them, spread over the run."""
        self._sample_at = 0.0
        self._sample_s = float("inf")
        """Duration of the shortest sample."""
        self._early = _FIRST_SAMPLES
        """Number of samples still to take at every step."""
        self._newest = ""
        self.after_step: Callable[[], None] | None = None
        """Called after each counted step."""
        self.end_rehearsal: Callable[[], None] | None = None
        """Measures and ends the process of a rehearsal; ``None`` outside one."""

    # ---- files in the run's folder ----

    def _file(self, name: str, flags: int) -> int:
        """Open a file in the run's folder for writing; create the folder if it is gone."""
        _make_private(self.run)
        flags |= os.O_WRONLY | os.O_CREAT
        return os.open(os.path.join(self.run, name), flags, 0o600)

    def log_event(self, event: str, **facts: Any) -> None:
        """Append a line to this process's file; ignore failures, which nobody could read."""
        line = json.dumps(dict(event=event, at=time.time(), **facts)) + "\n"
        try:
            with FileIO(self._file(self.identity + ".jsonl", os.O_APPEND), "a") as file:
                file.write(line.encode("utf-8", "backslashreplace"))
        except OSError:
            pass

    def run_guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call a function; an error is reported and has no other effect."""
        try:
            work(*arguments)
        except Exception as error:
            self.log_event("trouble", doing=work.__name__, text=_describe_error(error))

    def dump(self, name: str, complete: Callable[[Any], None] | None = None) -> None:
        """Write a snapshot, completely or not at all.

        Args:
            name: the file's name in the run's folder.
            complete: adds the agent's own facts to the snapshot.

        Raises:
            OSError: the file cannot be written.
            GivenUpError: it would take too long or too much disk space.
        """
        began = time.monotonic()
        path = os.path.join(self.run, name)
        descriptor = self._file(name + ".part", os.O_TRUNC)
        collects = gc.isenabled()
        # Garbage collection would visit the snapshot repeatedly, and run foreign code.
        gc.disable()
        try:
            snapshot = self.torch.cuda.memory._snapshot()
            if complete is not None:
                complete(snapshot)
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
                self.log_event("trouble", doing="count", text=_describe_error(error))
        due = self._early > 0 or time.monotonic() >= self._sample_at
        if due and self.alive:
            self.run_guarded(self._sample)
        if self.at_next_step and self.alive:
            self.at_next_step = False
            self.run_guarded(self._mark_survived)
            self.carry_out()
        if self.after_step is not None and self.alive:
            self.run_guarded(self.after_step)

    def _sample(self) -> None:
        """Record the allocated bytes of each used device after this step.

        A program need not make its device the current one. From a number of samples on, they cost
        at most 1% of the program's time.
        """
        began = time.monotonic()
        early = self._early - 1
        # If the next lines raise, no sample is recorded: one error is reported, not one per step.
        self._sample_at, self._early = float("inf"), 0
        cuda = self.torch.cuda
        sizes = {device: cuda.memory_allocated(device) for device in range(cuda.device_count())}
        self._samples.append((self.steps, {device: size for device, size in sizes.items() if size}))
        if len(self._samples) > _MOST_SAMPLES:
            # Drop every second sample, but not the newest.
            del self._samples[-2::-2]
        now = time.monotonic()
        self._sample_s = min(self._sample_s, now - began)
        self._sample_at, self._early = now + _SAMPLING_SHARE * self._sample_s, early

    def carry_out(self) -> None:
        """Run pending requests, on the training thread or between the main thread's bytecodes."""
        while self.waiting:
            try:
                work = self.waiting.pop(0)
            except IndexError:
                return  # another thread was first
            self.run_guarded(work)

    def _mark_survived(self) -> None:
        """Record that the program has continued after each of its OOMs."""
        for thread in list(self._open):
            self._mark_survived_in(thread)

    def _mark_survived_in(self, thread: int) -> None:
        number = self._open.pop(thread, None)
        if number is not None:
            self.log_event("handled", oom=number, step=self.steps)

    # ---- out of memory ----

    def out_of_memory(self, device: int, requested: int, limit: int, free: int) -> None:
        """Record an OOM; torch calls this before raising it, in the requesting thread."""
        if self.alive and self._busy != threading.get_ident():
            fields = dict(device=device, asked=requested, limit=limit, free=free)
            self.run_guarded(self._out_of_memory, fields, time.time())

    def _out_of_memory(self, fields: dict[str, Any], at: float) -> None:
        if not self._lock.acquire(timeout=LONGEST_S):
            return
        self._busy = threading.get_ident()
        try:
            self._mark_survived_in(self._busy)
            self.ooms += 1
            number = self.ooms
            quiet = time.monotonic() - self._ended_at
            takes = number <= FIRST or quiet >= SHARE * self._took
            if number <= MOST_TOLD or takes:
                device = fields["device"]
                fields.update(self._read_counters(device))
                frames = _frames()
                where = "%s:%s" % (frames[0]["filename"], frames[0]["line"]) if frames else None
                fields.update(happened=at, step=self.steps, thread=_thread(), where=where)
                self.log_event("oom", oom=number, snapshot_follows=takes, **fields)
                self._open[self._busy] = number
                self.at_next_step = True
            if takes:
                began = time.monotonic()
                inventory = self._inventory(number, device, fields["allocated"])
                self._write_oom_snapshot(number, dict(fields, frames=frames, inventory=inventory))
                self._ended_at = time.monotonic()
                self._took = self._ended_at - began
        finally:
            self._busy = None
            self._lock.release()

    def _read_counters(self, device: int) -> dict[str, int | None]:
        """Return the counters of torch's allocator for a device, without a CUDA call."""
        stats = self.torch.cuda.memory_stats(device)
        return dict(
            allocated=stats.get("allocated_bytes.all.current", 0),
            requested=stats.get("requested_bytes.all.current"),
            reserved=stats.get("reserved_bytes.all.current", 0),
        )

    def _record_driver_oom(self, error: BaseException) -> None:
        """Record an OOM from its exception, where torch does not call its observer.

        Not even torch knows the free memory then, and no text contains the requested size: both
        stay ``None``. This makes no CUDA call.
        """
        self.ooms += 1
        device = self._find_retrying_device()
        walked = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
        frames = _format_frames(reversed(walked))
        where = "%s:%s" % (frames[0]["filename"], frames[0]["line"]) if frames else None
        fields: dict[str, Any] = dict(device=device, asked=None, limit=None, free=None)
        fields.update(
            self._read_counters(device),
            happened=time.time(),
            step=self.steps,
            thread="main",
            where=where,
        )
        self.log_event("oom", oom=self.ooms, frames=frames, **fields)

    def _find_retrying_device(self) -> int:
        """Return the device whose allocator has most often flushed its cache in vain.

        Before torch passes on the driver's error, it counts a retry and no OOM. A query for the
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
        """Return Python's inventory of the device's memory, and write it as a separate line."""
        try:
            # A process that never runs out of memory never loads it.
            from .inventory import take_inventory

            inventory = take_inventory(self.torch, device, allocated, FOLDER)
        except Exception as error:
            self.log_event("trouble", doing="take_inventory", text=_describe_error(error))
            return None
        steps = ((step, sizes[device]) for step, sizes in self._samples if device in sizes)
        inventory["steps"] = [dict(step=step, allocated=size) for step, size in steps]
        inventory["step"] = self.steps
        self.log_event("inventory", oom=number, inventory=inventory)
        return inventory

    def _write_oom_snapshot(self, number: int, oom: dict[str, Any]) -> None:
        name = "oom-%s-%d.pickle" % (self.identity, number)
        try:
            self.dump(name, partial(_complete, oom=oom))
        except Exception as error:
            self.log_event("no snapshot", oom=number, text=_describe_error(error))
            return
        self.log_event("snapshot", oom=number, name=name, seconds=round(self._took, 4))
        if number > FIRST:
            previous, self._newest = self._newest, name
            if previous:
                os.unlink(os.path.join(self.run, previous))

    # ---- on demand ----

    def write_requested_snapshot(self) -> None:
        """Write a requested snapshot."""
        self.snapshots += 1
        name = "snapshot-%s-%d.pickle" % (self.identity, self.snapshots)
        self.dump(name)
        self.log_event(
            "snapshot", oom=None, name=name, step=self.steps, seconds=round(self._took, 4)
        )

    def record(self, entries: int = ENTRIES) -> None:
        """Switch torch's memory history on, unless the program has already done so."""
        if not self.entries:
            if self.torch._C._cuda_isHistoryEnabled():
                raise GivenUpError("the program records its own history")
            # Otherwise the first snapshot with stacks would import it, in the middle of an OOM.
            import_module("torch._inductor.codecache")
            self.entries = entries
        self._record("all")

    def stop_recording(self) -> None:
        """Stop recording stacks.

        Switching the history off, or shortening it, is unsafe beside an allocating thread: torch
        would free memory that the thread is about to write to.
        """
        if not self.recording:
            raise GivenUpError("the history is not this agent's")
        self._record(None)

    def _record(self, context: str | None) -> None:
        self.torch.cuda.memory._record_memory_history(
            "all", context=context, stacks="python", max_entries=self.entries
        )
        self.recording = context is not None
        self.log_event("history", on=self.recording, entries=self.entries, step=self.steps)

    # ---- the end ----

    def ended(self) -> None:
        """Record, at the interpreter's end, the exception that ended the program, if any."""
        if self.alive:
            self.alive = False
            raised = _find_last_raised()
            refused = [error for error in raised if _is_driver_oom(error)]
            if refused:
                self.run_guarded(self._record_driver_oom, refused[0])
            self.log_event("end", steps=self.steps, ooms=self.ooms, **_last_exception(raised))

    def forget(self) -> None:
        """Stop working in a fork: torch's answers there do not describe the watched process."""
        self.alive = False


def _make_private(folder: str) -> None:
    """Create a folder and its missing parents for the user alone, whatever the umask."""
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        if parent != folder:
            _make_private(parent)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass  # another process was first


def _describe_error(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, str(error)[:500])


def _frames() -> list[dict[str, Any]]:
    """Return the program's Python stack, innermost first, in torch's snapshot format."""
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
    own = [thread.name for thread in threading.enumerate() if thread.ident == threading.get_ident()]
    return own[0] if own else None


def _complete(snapshot: Any, oom: dict[str, Any]) -> None:
    """Add the OOM's facts and the inventory to the snapshot.

    If the history lacks the OOM, it is appended to its device's trace; if it lacks only the stack,
    the stack is added.
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
        # The history may contain no stacks.
        if not recorded[-1].get("frames"):
            recorded[-1]["frames"] = oom["frames"]


def _find_last_raised() -> list[BaseException]:
    """Return the exception that ended the program, its causes and its contexts."""
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None) or sys.exc_info()[1]
    chain: list[BaseException] = []
    while isinstance(last, BaseException) and len(chain) < _MOST_RAISED:
        chain.append(last)
        last = last.__cause__ or last.__context__
    return chain


def _is_driver_oom(error: BaseException) -> bool:
    """Return whether this is the driver's own OOM: ``AcceleratorError``, in older torch its base.

    Only errors of exactly these classes are converted to text, which runs no foreign code.
    """
    kind = type(error)
    known = kind is RuntimeError or (
        kind.__name__ == "AcceleratorError" and kind.__module__.partition(".")[0] == "torch"
    )
    return known and str(error).startswith(DRIVER_OOM)


def _last_exception(chain: list[BaseException]) -> dict[str, Any]:
    """Return text and class of the program's last exception, and whether it includes an OOM."""
    ran_out = [
        error
        for error in chain
        if type(error).__name__ == "OutOfMemoryError" or _is_driver_oom(error)
    ]
    if not chain:
        return dict(text="", type="", out_of_memory=False)
    exception = (ran_out or chain)[0]
    text = str(exception)[:_LONGEST_TEXT]
    return dict(text=text, type=type(exception).__name__, out_of_memory=bool(ran_out))
