"""The time from a program's start to its first GPU figures and to a usable screen.

``python -m benchmarks.startup`` compares the workbench with an empty Textual app, in turns,
beside a scripted driver with eight GPUs. The processor time is that of the program's own process:
other programs change it less than the seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.compiled import compile_program
from tests.nvml.fixtures import ScriptedNvml, build_library
from tests.nvml.scenario import busy_box
from tests.terminal.terminal import PROGRAM, TIMEOUT_S, Terminal

EMPTY = (sys.executable, str(Path(__file__).with_name("empty_app.py")))
USABLE = ("Devices", "matmul n=", "q quit")
"""The panes, a workload to select and the keys: the user can work."""
FIGURES = ("°C",)
"""The temperature of a GPU; a CPU has none."""
EMPTY_USABLE = ("usable",)
GPUS = 8
SIZES = ((80, 24), (120, 40))
QUIET_S = 0.1
"""After so long without a byte, the output so far is drawn and searched."""


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """One start, until the words were on the screen."""

    seconds: float
    processor_s: float
    """Processor time of the program's own process, without its children, seconds."""


class Arrivals(Terminal):
    """Records when bytes arrive, and draws them later.

    The emulator is written in Python and takes tens of milliseconds for a screen, more for a full
    one: neither program's time may include that.
    """

    def wait_for(self, *words: str) -> ProgramStart:
        """Return the time at which all words were on the screen."""
        program = psutil.Process(self.process.pid)
        arrived: list[tuple[ProgramStart, bytes]] = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            chunk = self.read_chunk(QUIET_S)
            if chunk:
                used = program.cpu_times()
                seconds = time.perf_counter() - self.started
                arrived.append((ProgramStart(seconds, used.user + used.system), chunk))
                continue
            for start, chunk in arrived:
                self.draw(chunk)
                text = self.text()
                if all(word in text for word in words):
                    return start
            arrived.clear()
        raise AssertionError(f"the screen never came:\n{self.text()}")


def measure_start(
    argv: Sequence[str],
    words: Sequence[str],
    *,
    size: tuple[int, int] = (80, 24),
    variables: Mapping[str, str] | None = None,
    quit_key: str = "\x11",
) -> ProgramStart:
    """Start a program, wait until all words are on its screen, and quit it."""
    with Arrivals(argv, *size, variables) as terminal:
        start = terminal.wait_for(*words)
        terminal.keys(quit_key)
        terminal.exit_code()
    return start


def driver(folder: Path) -> dict[str, str]:
    """Return the environment in which programs find the scripted driver.

    Args:
        folder: for the driver, and for the workbench's state and settings.
    """
    folder.mkdir(exist_ok=True)
    nvml = ScriptedNvml(build_library(folder), folder)
    variables = nvml.env(busy_box(GPUS))
    del variables["SCRIPTED_NVML_LOG"]
    variables["GPU_WORKBENCH_STATE"] = str(folder / "state")
    variables["GPU_WORKBENCH_CONFIG"] = str(folder / "config.toml")
    return variables


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts of the workbench and of the empty app, in turns."""

    ours: tuple[ProgramStart, ...]
    empty: tuple[ProgramStart, ...]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios of seconds."""
        return statistics.median(self._ratios)

    @property
    def processor_ratio(self) -> float:
        """The median of the pairs' ratios of processor time."""
        pairs = zip(self.ours, self.empty, strict=True)
        return statistics.median(a.processor_s / b.processor_s for a, b in pairs)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the pairs' ratios."""
        low, _, high = statistics.quantiles(self._ratios, n=4)
        return low, high

    def __add__(self, other: Starts) -> Starts:
        return Starts(self.ours + other.ours, self.empty + other.empty)

    @property
    def _ratios(self) -> list[float]:
        return [a.seconds / b.seconds for a, b in zip(self.ours, self.empty, strict=True)]

    def __str__(self) -> str:
        low, high = self.quartiles
        ours, empty = (
            statistics.median(start.seconds for start in starts)
            for starts in (self.ours, self.empty)
        )
        return (
            f"{ours:.3f} s, empty Textual app {empty:.3f} s, ratio {self.ratio:.2f}, "
            f"quartiles {low:.2f} to {high:.2f} ({len(self.ours)} pairs); "
            f"ratio of processor time {self.processor_ratio:.2f}"
        )


def starts(
    pairs: int, size: tuple[int, int], words: Sequence[str], variables: Mapping[str, str]
) -> Starts:
    """Start both in turns, so that a slow moment of the machine hits each.

    Args:
        pairs: the number of starts of each.
        size: columns and rows.
        words: the workbench has started once all are on its screen.
        variables: its environment, see :func:`driver`.
    """
    ours, empty = [], []
    for _ in range(pairs):
        empty.append(measure_start(EMPTY, EMPTY_USABLE, size=size))
        ours.append(measure_start(PROGRAM, words, size=size, variables=variables))
    return Starts(tuple(ours), tuple(empty))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup")
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    assert compile_program()
    with tempfile.TemporaryDirectory() as folder:
        variables = driver(Path(folder) / "driver")
        for name, words in (("first figures", FIGURES), ("usable screen", USABLE)):
            for size in SIZES:
                print(f"{name}, {size[0]}x{size[1]}: {starts(pairs, size, words, variables)}")


if __name__ == "__main__":
    main()
