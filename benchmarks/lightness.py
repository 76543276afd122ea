"""The program's cost compared with other programs: ``python -m benchmarks.lightness``.

It prints the three ratios that have a budget, and a table.

The programs run one after the other, each in its own pseudo-terminal, with the same scripted
driver: eight GPUs, nearly all of whose figures change each second. It counts the bytes that arrive
at the terminal, and the processor time and memory of all processes of a program. With ``--pairs``
the workbench and nvitop idle at the same time, so that the machine's other load hits both; then it
prints only their ratios. All get the same kind of terminal (``--colors``), whatever the caller's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from benchmarks import startup
from benchmarks.startup import FIGURES, Starts, driver, measure_start, starts
from tests.compiled import compile_program
from tests.terminal.terminal import PROGRAM, Terminal

SIZE = (120, 40)
SETTLE_S = 15.0
"""After so long the work of the workbench's start is done: the runner has imported torch."""
SETTLE_OTHERS_S = 3.0
STARTS = 15
KEYS = 60
KEY_PAUSE_S = 0.25


TERMINALS: dict[str, dict[str, str]] = {
    "16": {"TERM": "xterm", "COLORTERM": ""},
    "256": {"TERM": "xterm-256color", "COLORTERM": ""},
    "truecolor": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
}
"""The variables that tell programs how many colors a terminal has."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its command, and the words on its screen once it is usable."""

    name: str
    argv: tuple[str, ...]
    usable: tuple[str, ...]
    quit: str
    settle_s: float = SETTLE_OTHERS_S
    """From the usable screen until its costs are counted."""


OURS = Program("gpu-workbench", PROGRAM, startup.USABLE, "q", SETTLE_S)
NO_HISTORY = Program(
    "the same with the CPU selected", (*PROGRAM, "--device", "cpu"), startup.USABLE, "q", SETTLE_S
)
"""Without the selected GPU's history and its processes' allocators, which nvitop does not show."""
NVITOP = Program("nvitop", (sys.executable, "-m", "nvitop"), ("NVITOP", "Processes:"), "q")
EMPTY = Program("empty Textual app", startup.EMPTY, startup.EMPTY_USABLE, "\x11")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an idle program."""

    name: str
    usable_s: float
    """Median time from the start to the usable screen."""
    byte_per_min: float
    cpu_s_per_min: float
    front_byte: int
    """Resident memory of its processes that do not run torch."""
    byte: int
    """Resident memory of all its processes."""


@dataclass(frozen=True, slots=True)
class Running:
    """The cost of the workbench while a workload uses the CPU."""

    byte_per_s: float
    key_median_s: float
    key_p95_s: float
    keys: int


class Meter(Terminal):
    """Counts bytes and draws nothing: the emulator would use the cores that it measures."""

    drawing = True

    def read(self, timeout: float = 0.05) -> bool:
        if self.drawing:
            return super().read(timeout)
        return self.read_chunk(timeout) != b""

    def count(self, seconds: float) -> int:
        """Return the number of bytes that arrive in so many seconds."""
        self.drawing, before = False, len(self.output)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)
        self.drawing = True
        return len(self.output) - before


def processor_s(family: Sequence[psutil.Process]) -> float:
    """Return the processor time of processes and of their ended children, seconds."""
    total = 0.0
    for process in family:
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def is_torch(process: psutil.Process) -> bool:
    """Return whether the process is a runner or one of its workers."""
    return "workloads" in process.cmdline()


def idle(program: Program, variables: Mapping[str, str], seconds: float) -> Cost:
    """Measure what the program costs while its figures change, after its start."""
    with Meter(program.argv, *SIZE, variables) as terminal:
        terminal.until_shows(*program.usable)
        terminal.count(program.settle_s)
        family = terminal.family()
        before, began = processor_s(family), time.monotonic()
        arrived = terminal.count(seconds)
        elapsed, used = time.monotonic() - began, processor_s(family) - before
        resident = {process: process.memory_info().rss for process in family}
        front = sum(size for process, size in resident.items() if not is_torch(process))
        terminal.keys(program.quit)
        terminal.exit_code()
    per_min = 60.0 / elapsed
    return Cost(program.name, 0.0, arrived * per_min, used * per_min, front, sum(resident.values()))


@dataclass(frozen=True, slots=True)
class IdlePair:
    """The costs of the workbench and nvitop, idle at the same time."""

    ours: Cost
    nvitop: Cost

    @property
    def sent(self) -> float:
        """The ratio of our bytes to the terminal to nvitop's."""
        return self.ours.byte_per_min / self.nvitop.byte_per_min

    @property
    def used(self) -> float:
        """The ratio of our processor time to nvitop's."""
        return self.ours.cpu_s_per_min / self.nvitop.cpu_s_per_min


def idle_pair(variables: Mapping[str, str], seconds: float) -> IdlePair:
    """Measure both at the same time."""
    with ThreadPoolExecutor(2) as threads:
        ours, nvitop = threads.map(
            lambda program: idle(program, variables, seconds), (OURS, NVITOP)
        )
    return IdlePair(ours, nvitop)


def pair_lines(pairs: Sequence[IdlePair]) -> str:
    """Return the medians of the ratios, with the lowest and the highest, and of the costs."""

    def spread(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    kilobytes = [pair.ours.byte_per_min / 1e3 for pair in pairs]
    seconds = [pair.ours.cpu_s_per_min for pair in pairs]
    return "\n".join(
        (
            f"{len(pairs)} pairs, at a load of {os.getloadavg()[0]:.0f}:",
            f"bytes to the terminal, idle: {spread([pair.sent for pair in pairs])} times nvitop's; "
            f"{statistics.median(kilobytes):.0f} kB/min",
            f"processor time, idle: {spread([pair.used for pair in pairs])} times nvitop's; "
            f"{statistics.median(seconds):.2f} s/min",
        )
    )


def print_progress(text: str) -> None:
    """Print to stderr: only the figures go to standard output."""
    print(text, file=sys.stderr, flush=True)


def compare(
    programs: Sequence[Program], variables: Mapping[str, str], seconds: float, starts: int = STARTS
) -> tuple[Cost, ...]:
    """Measure all programs, their starts in turns, so that a slow moment hits each."""
    times: dict[str, list[float]] = {program.name: [] for program in programs}
    for number in range(starts):
        print_progress(f"start {number + 1} of {starts} of each")
        for program in programs:
            start = measure_start(
                program.argv,
                program.usable,
                size=SIZE,
                variables=variables,
                quit_key=program.quit,
            )
            times[program.name].append(start.seconds)
    costs = []
    for program in programs:
        print_progress(f"{program.name}, idle: {program.settle_s + seconds:.0f} s")
        cost = idle(program, variables, seconds)
        costs.append(replace(cost, usable_s=statistics.median(times[program.name])))
    return tuple(costs)


def running(variables: Mapping[str, str], seconds: float, size: tuple[int, int]) -> Running:
    """Measure bytes and keys while the whole catalogue runs on the CPU.

    A key's time ends when the cursor has moved on the screen.
    """
    with Meter(PROGRAM, *size, variables) as terminal:
        terminal.until_shows(*OURS.usable)
        terminal.until_shows("ready")
        terminal.keys("R")
        terminal.until_shows("y yes")
        terminal.keys("y")
        terminal.until_shows("running")
        answers = []
        for number in range(KEYS):
            until = time.monotonic() + KEY_PAUSE_S
            while time.monotonic() < until:
                terminal.read(0.01)
            before = _cursor(terminal)
            began = time.perf_counter()
            terminal.keys("j" if number % 2 == 0 else "k")
            while _cursor(terminal) == before:
                terminal.read(0.001)
            answers.append(time.perf_counter() - began)
        began = time.monotonic()
        arrived = terminal.count(seconds)
        elapsed = time.monotonic() - began
        terminal.keys("q")
        terminal.until_shows("y yes")
        terminal.keys("y")
        terminal.exit_code(30)
    answers.sort()
    return Running(
        arrived / elapsed,
        statistics.median(answers),
        answers[min(len(answers) - 1, round(0.95 * len(answers)))],
        len(answers),
    )


def _cursor(terminal: Terminal) -> list[int]:
    return [number for number, row in enumerate(terminal.rows()) if row.startswith("▸")]


def table(costs: Sequence[Cost]) -> str:
    """Return the costs as a table in Markdown."""
    rows = [
        "| | usable screen | to the terminal | processor time | memory, without torch |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| {cost.name} | {cost.usable_s:.2f} s | {cost.byte_per_min / 1e3:.0f} kB/min | "
        f"{cost.cpu_s_per_min:.2f} s/min | {cost.front_byte / 2**20:.0f} MiB |"
        for cost in costs
    ]
    return "\n".join(rows)


MOST_START, MOST_BYTES, MOST_CPU_TIME = 1.6, 2.5, 1.5
"""The budgets, as ratios to an empty Textual app's start, nvitop's bytes and its processor time."""


def ratios(first_figures: Starts, ours: Cost, nvitop: Cost) -> str:
    """Return three lines: each ratio and its budget."""
    sent = ours.byte_per_min / nvitop.byte_per_min
    used = ours.cpu_s_per_min / nvitop.cpu_s_per_min
    return "\n".join(
        (
            f"first GPU figures: {first_figures}; the budget is {MOST_START:g}",
            f"bytes to the terminal, idle: {sent:.2f} times nvitop's; the budget is {MOST_BYTES:g}",
            f"processor time, idle: {used:.2f} times nvitop's; the budget is {MOST_CPU_TIME:g}",
        )
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lightness")
    parser.add_argument("--seconds", type=float, default=60.0, help="time of each idle program")
    parser.add_argument("--starts", type=int, default=STARTS, help="starts of each program")
    parser.add_argument("--pairs", type=int, default=0, help="measure only so many idle pairs")
    parser.add_argument("--colors", choices=TERMINALS, default="truecolor", help="the terminal's")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.starts < 2:
        parser.error("--starts: at least 2, as quartiles need")
    working_s = min(arguments.seconds, 30.0)
    compile_program()
    with tempfile.TemporaryDirectory() as name:
        variables = {**driver(Path(name) / "driver"), **TERMINALS[arguments.colors]}
        if arguments.pairs:
            pairs = [idle_pair(variables, arguments.seconds) for _ in range(arguments.pairs)]
            print(pair_lines(pairs))
            return
        costs = compare(
            (OURS, NO_HISTORY, NVITOP, EMPTY), variables, arguments.seconds, arguments.starts
        )
        print_progress("first GPU figures")
        first = starts(arguments.starts, SIZE, FIGURES, variables)
        if not arguments.json:
            # The user may interrupt the rest.
            print(f"{ratios(first, costs[0], costs[2])}\n\n{table(costs)}", flush=True)
        total_s = KEYS * KEY_PAUSE_S + working_s
        print_progress(f"the catalogue runs: {total_s:.0f} s, its start and its end")
        busy = running(variables, working_s, (80, 24))
    if arguments.json:
        figures = {
            "first": asdict(first),
            "idle": list(map(asdict, costs)),
            "running": asdict(busy),
        }
        print(json.dumps(figures, indent=2))
        return
    print(
        f"\nWhile the catalogue runs on the CPU, at 80x24: {busy.byte_per_s / 1e3:.1f} kB/s, "
        f"{busy.key_median_s * 1e3:.0f} ms from a key to its effect (95th percentile "
        f"{busy.key_p95_s * 1e3:.0f} ms of {busy.keys})"
    )


if __name__ == "__main__":
    main()
