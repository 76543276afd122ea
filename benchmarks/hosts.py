"""The cost of further hosts: ``python -m benchmarks.hosts`` (needs root, sshd and a C compiler).

The hosts are network namespaces of this machine, each with its own sshd and a scripted driver for
eight GPUs whose figures change every second. One host and several take turns, so that a slow moment
of the machine hits each. Processor time is that of the program and its ssh processes; the hosts'
processes are counted apart. Traffic is that of a host's network interface, both ways.

Real hosts have their own processors. So the program gets the first core and the hosts the others:
with ten hosts on its core, its caches would be cold whenever it wakes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.lightness import Meter, print_progress
from benchmarks.startup import Arrivals
from tests.compiled import compile_program
from tests.hosts.rig import Rig, make_rig
from tests.nvml.fixtures import ScriptedNvml, build_library
from tests.nvml.scenario import Proc, busy_box, uuid
from tests.terminal.terminal import PROGRAM
from tests.watch.target import ScriptedTarget, build_target, running

SIZE = (120, 40)
GPUS = 8
SETTLE_S = 6.0
CHURN_S = 0.3
"""Between two changes of a torch process's memory."""
TABS = (("1", "devices"), ("2", "memory"), ("4", "processes"), ("1", "devices, torch read"))
"""Keys and names of the tabs in order; from the second on, the program reads torch processes."""
NAMES = ("LD_LIBRARY_PATH", "SCRIPTED_NVML")
GIB = 2**30
CORES = sorted(os.sched_getaffinity(0))
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a tab per second of a clock."""

    tab: str
    hosts: int
    program_s: float
    """Processor seconds of the program."""
    ssh_s: float
    """Processor seconds of its ssh processes."""
    there_s: float
    """Processor seconds of all processes on the hosts, without the listening sshd."""
    byte_per_s: float
    """Traffic of one host, both ways."""
    drawn_byte_per_s: float
    """Output to the terminal."""

    @property
    def here_s(self) -> float:
        """The processor seconds of the program and ssh."""
        return self.program_s + self.ssh_s


@contextmanager
def torch_processes(folder: Path, count: int) -> Iterator[list[ScriptedTarget]]:
    """Start ranks of one job with the statistics of torch's allocator, and change these."""
    if not count:
        yield []
        return
    program = build_target(folder)
    stopping = threading.Event()
    with ExitStack() as stack:
        targets = []
        for rank in range(count):
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": 29_500}
            variables = {name: str(value) for name, value in names.items()}
            target = stack.enter_context(running(program, {**variables, "MASTER_ADDR": "node0"}))
            target.make(GPUS)
            target.do("churn", rank % GPUS, 40)
            targets.append(target)

        def churn() -> None:
            turn = 0
            while not stopping.wait(CHURN_S):
                turn += 1
                for rank, target in enumerate(targets):
                    target.do("churn", rank % GPUS, 1 + (turn + rank) % 40)

        changing = threading.Thread(target=churn, daemon=True)
        changing.start()
        try:
            yield targets
        finally:
            stopping.set()
            changing.join()


def script_driver(rig: Rig, folder: Path, targets: Sequence[ScriptedTarget]) -> None:
    """Give each host the scripted driver with its own GPUs, on which the torch processes run."""
    library = build_library(folder)
    box = busy_box(GPUS)
    if targets:
        devices = tuple(
            replace(
                device,
                processes=tuple(
                    Proc(target.pid, 40 * GIB)
                    for rank, target in enumerate(targets)
                    if rank % GPUS == number
                ),
            )
            for number, device in enumerate(box.devices)
        )
        box = replace(box, devices=devices)
    for number in range(1, rig.count + 1):
        host_folder = folder / f"host{number}"
        host_folder.mkdir()
        devices = tuple(
            replace(device, uuid=uuid(number * GPUS + place))
            for place, device in enumerate(box.devices)
        )
        variables = ScriptedNvml(library, host_folder).env(replace(box, devices=devices))
        rig.set_environment(number, {name: variables[name] for name in NAMES})


def delay(rig: Rig, milliseconds: float) -> None:
    """Delay the traffic of all hosts each way, from the next connection on."""
    configuration = rig.folder / "ssh_config"
    lines = configuration.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if "ProxyCommand" not in line]
    if milliseconds:
        relay = Path(__file__).with_name("delayed.py")
        lines.append(f"  ProxyCommand {sys.executable} {relay} %h %p {milliseconds:g}")
    configuration.write_text("\n".join([*lines, ""]), encoding="utf-8")


def arguments(rig: Rig, hosts: int) -> tuple[str, ...]:
    """Return the command that opens the screen over the first hosts of a rig."""
    names = ",".join(rig.names[:hosts])
    return (*PROGRAM, "--no-here", "--host", names, *rig.pythons[: 2 * hosts])


def _ssh(rig: Rig) -> list[psutil.Process]:
    """Return our ssh processes: the session's, and the shared connections' in the background."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if process.name() == "ssh" and any(str(rig.folder) in word for word in words):
                processes.append(process)
    return processes


def read_clocks(processes: Sequence[psutil.Process]) -> float:
    """Return the processor seconds of processes by their clocks, which count nanoseconds.

    ``/proc`` rounds to hundredths of a second, which ssh uses in many seconds.
    """
    total, clock = 0.0, ctypes.c_int()
    for process in processes:
        # An ended process has no clock.
        if _LIBC.clock_getcpuclockid(process.pid, ctypes.byref(clock)) == 0:
            with suppress(OSError):
                total += time.clock_gettime(clock.value)
    return total


def _there(rig: Rig, hosts: int) -> list[psutil.Process]:
    processes = []
    for number in range(1, hosts + 1):
        for pid in rig.pids(number):
            with suppress(psutil.Error):
                processes.append(psutil.Process(pid))
    return processes


def _traffic(rig: Rig) -> int:
    """Return the bytes to and from the first host since its start."""
    folder = Path("/sys/class/net") / f"{rig.tag}.1" / "statistics"
    return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


def cost(rig: Rig, hosts: int, seconds: float, environment: Mapping[str, str]) -> list[Cost]:
    """Open the screen over so many hosts and measure each tab."""
    costs = []
    on_one_core = ("taskset", "--cpu-list", str(CORES[0]), *arguments(rig, hosts))
    with Meter(on_one_core, *SIZE, environment) as terminal:
        terminal.until_shows(f"{hosts * GPUS} GPUs" if hosts > 1 else f"{GPUS} H200")
        terminal.until_shows(f"of {hosts * GPUS} GPUs free")
        for key, tab in TABS:
            terminal.keys(key)
            terminal.count(SETTLE_S)
            program, ssh = psutil.Process(terminal.process.pid), _ssh(rig)
            groups = ([program], ssh, _there(rig, hosts))
            before, began = [*map(read_clocks, groups), _traffic(rig)], time.monotonic()
            drawn = terminal.count(seconds)
            elapsed, after = time.monotonic() - began, [*map(read_clocks, groups), _traffic(rig)]
            program_s, ssh_s, there_s, traffic = (
                (late - early) / elapsed for early, late in zip(before, after, strict=True)
            )
            costs.append(Cost(tab, hosts, program_s, ssh_s, there_s, traffic, drawn / elapsed))
        terminal.keys("q")
        terminal.exit_code()
    return costs


def costs(rig: Rig, rounds: int, seconds: float) -> str:
    """Measure one host and all of them in turns; return a table."""
    measured: list[list[Cost]] = []
    for number in range(rounds):
        for hosts in (1, rig.count):
            print_progress(f"round {number + 1} of {rounds}: {hosts} hosts")
            measured.append(cost(rig, hosts, seconds, rig.environment()))
    lines = [
        "| tab | hosts | program, ms/s | ssh, ms/s | there, ms/s a host | kB/s a host | to the "
        "terminal, kB/s | ratio of program and ssh | of the program alone |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for place, (_, tab) in enumerate(TABS):
        single, several = ([cost[place] for cost in measured[start::2]] for start in (0, 1))
        pairs = list(zip(single, several, strict=True))
        ratio = statistics.median(many.here_s / one.here_s for one, many in pairs)
        own_ratio = statistics.median(many.program_s / one.program_s for one, many in pairs)
        for group, ratios in ((single, ["", ""]), (several, [f"{ratio:.2f}", f"{own_ratio:.2f}"])):
            figures = (
                1000 * statistics.median(cost.program_s for cost in group),
                1000 * statistics.median(cost.ssh_s for cost in group),
                1000 * statistics.median(cost.there_s / cost.hosts for cost in group),
                statistics.median(cost.byte_per_s for cost in group) / 1000,
                statistics.median(cost.drawn_byte_per_s for cost in group) / 1000,
            )
            cells = [tab, str(group[0].hosts), *(f"{figure:.1f}" for figure in figures), *ratios]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def starts(rig: Rig, hosts: int, milliseconds: float, rounds: int) -> str:
    """Return the seconds from the start until the GPUs of all hosts are on the screen."""
    delay(rig, milliseconds)
    words = [f"of {hosts * GPUS} GPUs free", *(f"{name}:0" for name in rig.names[:hosts])]
    times = []
    for number in range(rounds):
        progress = f"start {number + 1} of {rounds}, {hosts} hosts, {milliseconds:g} ms each way"
        print_progress(progress)
        with Arrivals(arguments(rig, hosts), *SIZE, rig.environment()) as terminal:
            times.append(terminal.wait_for(*words).seconds)
            terminal.keys("q")
            terminal.exit_code()
        # Wait until the shared connections are closed, so that no start can reuse them.
        while _ssh(rig):
            time.sleep(0.5)
    delay(rig, 0)
    all_s = ", ".join(f"{seconds:.2f}" for seconds in times)
    return (
        f"{hosts * GPUS} GPUs of {hosts} hosts, {milliseconds:g} ms each way: median "
        f"{statistics.median(times):.2f} s ({all_s})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts")
    parser.add_argument("--hosts", type=int, default=10, help="hosts to compare with one")
    parser.add_argument("--torch", type=int, default=8, help="torch processes on each host")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="time of each tab")
    parser.add_argument(
        "--starts", type=int, default=0, help="measure starts over three hosts instead"
    )
    chosen = parser.parse_args()
    compile_program()
    if not chosen.starts:
        os.sched_setaffinity(0, CORES[1:] or CORES)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        targets = stack.enter_context(torch_processes(folder, chosen.torch))
        rig = stack.enter_context(make_rig(3 if chosen.starts else chosen.hosts))
        script_driver(rig, folder, targets)
        if chosen.starts:
            for milliseconds in (0.0, 150.0):
                print(starts(rig, 3, milliseconds, chosen.starts), flush=True)
        else:
            print(costs(rig, chosen.rounds, chosen.seconds))
        print(f"load {psutil.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
