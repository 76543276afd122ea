"""The time from a key to its tab, first and again: ``python -m benchmarks.tabs`` prints a table.

The program runs in a pseudo-terminal of 120x40 with a scripted driver for eight GPUs. With
``--host`` they are the GPUs of a host behind sshd (needs root, sshd and a C compiler), and
``--delay`` delays its traffic each way. A key's time ends when the tab's title is on the screen;
what the tab reads from files follows. Other programs change the processor time less than the
milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.hosts import arguments, delay, read_clocks, script_driver
from benchmarks.lightness import print_progress
from benchmarks.startup import USABLE, Arrivals, driver
from tests.compiled import compile_program
from tests.hosts.rig import make_rig
from tests.terminal.terminal import PROGRAM, TIMEOUT_S

SIZE = (120, 40)
FIRST = ("1", "━ Workloads", "r runs a workload")
TABS = (
    ("2", "━ Memory", "process and device"),
    ("3", "━ Snapshot", "gpu-workbench watch -- python"),
    ("4", "━ Processes", "command"),
    ("5", "━ Watched runs", "gpu-workbench watch -- python"),
    ("6", "━ Results", "Play the demo"),
)
"""Key, title and last words of each tab but the first."""
QUIET_S = 0.15
"""After so long without a byte, the output so far is drawn and searched."""
PAUSE_S = 0.4
"""From a key's effect to the next key."""
SETTLE_S = 12.0
"""From the usable screen to the first key: until the runner has imported torch."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The effect of one key."""

    title_s: float
    """Until the title of the tab was on the screen."""
    contents_s: float
    """Until its last words were."""
    processor_s: float
    """Processor time of the program's own process until the next key."""


class KeyTerminal(Arrivals):
    """Measures the time from a key to its effect."""

    def open(self, key: str, title: str, words: str) -> Opening:
        """Type a key and return the times at which its tab was on the screen."""
        program = [psutil.Process(self.process.pid)]
        used = read_clocks(program)
        began = time.perf_counter()
        self.keys(key)
        title_s, contents_s = (at - began for at in self._wait(title, words))
        self.settle(PAUSE_S)
        return Opening(title_s, contents_s, read_clocks(program) - used)

    def _wait(self, title: str, words: str) -> tuple[float, float]:
        arrived: list[tuple[float, bytes]] = []
        titled: float | None = None
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            chunk = self.read_chunk(QUIET_S)
            if chunk:
                arrived.append((time.perf_counter(), chunk))
                continue
            for at, chunk in arrived:
                self.draw(chunk)
                text = self.text()
                if titled is None and title in text:
                    titled = at
                if titled is not None and words in text:
                    return titled, at
            arrived.clear()
        raise AssertionError(f"{title} {words} never came:\n{self.text()}")

    def settle(self, seconds: float) -> None:
        """Draw the output for so many seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)


@dataclass(frozen=True, slots=True)
class Round:
    """One start of the program."""

    first: tuple[Opening, ...]
    again: tuple[Opening, ...]
    resident: int
    """Bytes of the program's own process after all tabs were opened."""
    resident_before: int
    """Bytes before the first was opened."""


def measure(
    argv: Sequence[str], variables: Mapping[str, str], shows: Sequence[str], settle_s: float
) -> Round:
    """Start the program, and open each tab twice; in between, the first tab."""
    passes: list[tuple[Opening, ...]] = []
    with KeyTerminal(argv, *SIZE, variables) as terminal:
        terminal.wait_for(*shows)
        terminal.settle(settle_s)
        program = psutil.Process(terminal.process.pid)
        before = program.memory_info().rss
        for _ in range(2):
            openings = []
            for tab in TABS:
                openings.append(terminal.open(*tab))
                terminal.open(*FIRST)
            passes.append(tuple(openings))
        after = program.memory_info().rss
        terminal.keys("q")
        terminal.exit_code()
    return Round(passes[0], passes[1], after, before)


def table(rounds: Sequence[Round]) -> str:
    """Return a row for each tab: milliseconds and processor time, first and again."""

    def cell(seconds: Sequence[float]) -> str:
        times = sorted(1000 * second for second in seconds)
        return f"{statistics.median(times):.0f} ({times[0]:.0f} to {times[-1]:.0f})"

    lines = [
        "| tab | opened | title, ms | contents, ms | processor, ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for place, (_, title, _) in enumerate(TABS):
        for name, passes in (
            ("first", [start.first for start in rounds]),
            ("again", [start.again for start in rounds]),
        ):
            openings = [tabs[place] for tabs in passes]
            used = 1000 * statistics.median(opening.processor_s for opening in openings)
            cells = cell([opening.title_s for opening in openings])
            cells += f" | {cell([opening.contents_s for opening in openings])} | {used:.0f}"
            lines.append(f"| {title[2:]} | {name} | {cells} |")
    resident = statistics.median(start.resident for start in rounds) / 2**20
    before = statistics.median(start.resident_before for start in rounds) / 2**20
    lines.append(f"\nresident memory of the program: {before:.0f} MiB, then {resident:.0f} MiB")
    return "\n".join(lines)


@contextmanager
def _program(
    folder: Path, *, over_host: bool, delay_ms: float
) -> Iterator[tuple[Sequence[str], Mapping[str, str], Sequence[str]]]:
    """Yield a command, its environment, and the words of its usable screen."""
    with ExitStack() as stack:
        if not over_host:
            yield PROGRAM, driver(folder / "driver"), USABLE
            return
        rig = stack.enter_context(make_rig(1))
        script_driver(rig, folder, [])
        delay(rig, delay_ms)
        yield arguments(rig, 1), rig.environment(), ("box1:0", "°C")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabs")
    parser.add_argument("--host", action="store_true", help="the GPUs of a host behind sshd")
    parser.add_argument("--delay", type=float, default=0.0, help="of the host, ms each way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds to the first key")
    chosen = parser.parse_args()
    compile_program()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _program(folder, over_host=chosen.host, delay_ms=chosen.delay) as (argv, env, shows):
            rounds = []
            for number in range(chosen.rounds):
                print_progress(f"round {number + 1} of {chosen.rounds}")
                rounds.append(measure(argv, env, shows, chosen.settle))
    print(f"{table(rounds)}\nload {psutil.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
