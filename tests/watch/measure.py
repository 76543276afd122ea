"""``python -m tests.watch.measure`` prints what reading from outside costs, the table of the docs.

It needs a C compiler; ``strace`` where there is one; with ``--torch`` a CUDA device, real or
simulated: the speed of a process with torch is measured then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.watch.target import ScriptedTarget, build_target, running
from tui.allocators.peek import AllocatorReader
from tui.allocators.process_files import ProcessFiles
from workloads.measure.estimates import paired_ratio

INTERVAL_S = 0.1
SPAN_S = 0.5
PAIRS = 50
PROCESSES = 8
TORCH = """
import sys, time, torch
made = 0
while True:
    line = sys.stdin.readline()
    if not line:
        break
    end = time.perf_counter() + float(line)
    made = 0
    while time.perf_counter() < end:
        for _ in range(200):
            torch.empty(100_000, device="cuda:0")
        made += 200
    print(made, flush=True)
"""


@contextmanager
def watching(*pids: int) -> Iterator[psutil.Process]:
    """Start a child that reads these processes ten times a second."""
    words = ("serve", "--interval", str(INTERVAL_S))
    command = (sys.executable, "-m", "tui.allocators", *words)
    # Into a file: who reads a pipe would take its turn on the cores too.
    with tempfile.NamedTemporaryFile() as told:
        child = subprocess.Popen(
            [*command, "--pids", ",".join(map(str, pids)), "--no-children"],
            stdin=subprocess.PIPE,
            stdout=told,
        )
        assert child.stdin is not None
        try:
            while b"process_figures" not in Path(told.name).read_bytes():
                time.sleep(0.05)
            yield psutil.Process(child.pid)
        finally:
            child.stdin.close()
            child.wait()


def one_reading(target: ScriptedTarget) -> None:
    """Measure one reading, at rest and while the numbers change."""
    reader = AllocatorReader(ProcessFiles(target.pid))
    began = time.perf_counter()
    reader.locate()
    found = time.perf_counter() - began
    (device,) = reader.devices
    print(f"figures found in                          {found * 1e3:.2f} ms")
    spans = []
    for _ in range(2000):
        began = time.perf_counter()
        reader.read(began)
        spans.append(time.perf_counter() - began)
    print(f"a reading, nothing changed                {statistics.median(spans) * 1e6:.0f} us")
    target.do("hammer")
    spans, torn = [], 0
    for _ in range(20_000):
        began = time.perf_counter()
        torn += device.try_once() is None
        spans.append(time.perf_counter() - began)
    target.do("rest")
    reader.close()
    print(f"one try while the process hammers         {statistics.median(spans) * 1e6:.0f} us")
    print(f"tries that broke an invariant, not shown  {torn} of {len(spans)}")


def torn_readings(target: ScriptedTarget, seconds: float) -> None:
    """Read a process as often as that goes while it allocates and frees."""
    reader = AllocatorReader(ProcessFiles(target.pid))
    reader.locate()
    device = reader.devices[0]
    working = threading.Thread(target=target.ask, args=(seconds,))
    working.start()
    tries = torn = missed = 0
    while working.is_alive():
        tries += 1
        if device.try_once() is None:
            torn += 1
            missed += device.read() is None
    working.join()
    reader.close()
    print(f"tries that broke an invariant, not shown  {torn:,} of {tries:,}")
    print(f"  of these not had at once                {missed:,}")


def child_time(program: Path, seconds: float) -> None:
    """Processor time of the child for eight processes, whose figures change all the time."""
    with ExitStack() as stack:
        targets = [stack.enter_context(running(program)) for _ in range(PROCESSES)]
        for target in targets:
            target.make(1)
            target.do("churn", 0, 1000)
        with watching(*(target.pid for target in targets)) as child:
            before = child.cpu_times()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for target in targets:
                    target.do("churn", 0, 3)
                time.sleep(INTERVAL_S / 2)
            after = child.cpu_times()
        used = after.user + after.system - before.user - before.system
    print(
        f"the child, {PROCESSES} processes at {1 / INTERVAL_S:g} Hz           "
        f"{100 * used / seconds:.2f}% of a core over {seconds:g} s"
    )


def system_calls(program: Path) -> None:
    """Count the system calls of the target at work, while it is read and not."""
    strace = shutil.which("strace")
    if strace is None:
        print("calls of the target                       n/a: there is no strace here")
        return
    counted = {}
    for read in (False, True):
        with tempfile.NamedTemporaryFile() as table:
            command = [strace, "-f", "-c", "-o", table.name, str(program)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            target = ScriptedTarget(process)
            target.make(1)
            target.do("churn", 0, 100)
            (traced,) = psutil.Process(process.pid).children()
            with watching(traced.pid) if read else contextlib.nullcontext():
                for _ in range(20):
                    target.do("churn", 0, 1_000_000)
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
            counted[read] = _calls(Path(table.name).read_text(encoding="utf-8"))
    same = "the same of each" if counted[False] == counted[True] else f"{counted}"
    totals = [sum(counted[read].values()) for read in (False, True)]
    print(f"calls of the target, not read and read    {totals[0]} and {totals[1]}: {same}")


def _calls(text: str) -> dict[str, int]:
    rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", text, re.MULTILINE)
    return {name: int(count) for count, name in rows if name != "total"}


def speed(torch: bool, program: Path) -> None:
    """Measure the target's own speed in turns, while it is read and not."""
    if torch:
        process = subprocess.Popen(
            [sys.executable, "-c", TORCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        target, what = ScriptedTarget(process), "torch, allocations a second"

        def work() -> int:
            return int(target.ask(SPAN_S))

        work()
        torn_readings(target, 10)
        _in_turns(what, target.pid, work)
        process.kill()
        process.communicate()
        return
    with running(program) as target:
        target.make(1)

        def work() -> int:
            for _ in range(10):
                target.do("churn", 0, 200_000)
            return 10 * 200_000

        work()
        _in_turns("C target, changes a second", target.pid, work)


def _in_turns(what: str, pid: int, work: Callable[[], int]) -> None:
    """Print the rates of work, by the clock and by the target's own processor time."""
    ratios: dict[str, list[float]] = {"clock": [], "processor": []}
    rates = []
    with watching(pid) as child:
        for number in range(PAIRS):
            pair = {}
            for read in (number % 2 == 0, number % 2 == 1):
                # One that is stopped costs what one costs that is not there.
                if read:
                    child.resume()
                else:
                    child.suspend()
                clock, processor = time.perf_counter(), _processor_s(pid)
                done = work()
                pair[read] = (
                    done / (time.perf_counter() - clock),
                    done / (_processor_s(pid) - processor),
                )
            for name, one, other in zip(ratios, pair[True], pair[False], strict=True):
                ratios[name].append(one / other)
            rates.append(pair[False][0])
        child.resume()
    print(f"{what:<41} {statistics.median(rates):,.0f} where it is not read")
    for name, values in ratios.items():
        found = paired_ratio(values)
        assert found.ci95 is not None
        low, high = found.ci95
        ratio = f"{found.value:.4f}, {low:.4f} to {high:.4f}, {PAIRS} pairs"
        print(f"  read / not read, by {name + ' time':<20} {ratio}")


def _processor_s(pid: int) -> float:
    """Return the processor time of a process's first thread, seconds, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) / 1e9


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="a process with torch, on cuda:0")
    parser.add_argument("--speed", action="store_true", help="the speed of the target alone")
    parser.add_argument("--seconds", type=float, default=30.0, help="for the child's own time")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, Linux {os.uname().release}")
    with tempfile.TemporaryDirectory() as folder:
        program = build_target(Path(folder))
        speed(arguments.torch, program)
        if arguments.torch or arguments.speed:
            return
        with running(program) as target:
            target.make(1)
            target.do("churn", 0, 100)
            one_reading(target)
        child_time(program, arguments.seconds)
        system_calls(program)


if __name__ == "__main__":
    main()
