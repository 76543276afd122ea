"""How soon a key opens a tab, first and again: ``python -m benchmarks.tabs`` prints a table.

The program runs in a pseudo-terminal of 120x40 beside a scripted driver with eight GPUs; with
``--host`` the GPUs are those of a host behind sshd (needs root, sshd and a C compiler), whose
answers ``--delay`` makes later each way. A key is answered when the bytes have arrived that put
the tab's title on the screen; what the tab reads from files follows. Other programs change its
processor time less than the milliseconds.
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
from benchmarks.lightness import say
from benchmarks.startup import USABLE, Arrivals, driver
from tests.compiled import compile_program
from tests.hosts.rig import make_rig
from tests.terminal.terminal import PATIENCE_S, PROGRAM

SIZE = (120, 40)
FIRST = ("1", "━ Workloads", "r runs a workload")
TABS = (
    ("2", "━ Memory", "process and device"),
    ("3", "━ Snapshot", "gpu-workbench watch -- python"),
    ("4", "━ Processes", "command"),
    ("5", "━ Runs under the watch", "gpu-workbench watch -- python"),
    ("6", "━ Results", "Play the demo"),
)
"""Key, title and last words of each tab but the first."""
QUIET_S = 0.15
"""After so long without a byte, what has arrived is drawn and searched for the words."""
PAUSE_S = 0.4
"""From an answer to the next key."""
SETTLE_S = 12.0
"""From the usable screen to the first key: until the runner has imported torch."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The answer to one key."""

    title_s: float
    """Until the title of the tab was on the screen."""
    contents_s: float
    """Until its last words were."""
    processor_s: float
    """Processor time of the program's own process until the next key."""


class KeyTerminal(Arrivals):
    """A terminal that measures how soon a key is answered."""

    def open(self, key: str, title: str, words: str) -> Opening:
        """Type a key, and return when the bytes had arrived that put its tab on the screen."""
        program = [psutil.Process(self.process.pid)]
        used = read_clocks(program)
        began = time.perf_counter()
        self.keys(key)
        titled, found = (at - began for at in self._wait(title, words))
        self.settle(PAUSE_S)
        return Opening(titled, found, read_clocks(program) - used)

    def _wait(self, title: str, words: str) -> tuple[float, float]:
        arrived: list[tuple[float, bytes]] = []
        titled: float | None = None
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            taken = self.take(QUIET_S)
            if taken:
                arrived.append((time.perf_counter(), taken))
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
        """Draw what arrives for so long."""
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
    found: list[tuple[Opening, ...]] = []
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
            found.append(tuple(openings))
        after = program.memory_info().rss
        terminal.keys("q")
        terminal.exit_code()
    return Round(found[0], found[1], after, before)


def table(rounds: Sequence[Round]) -> str:
    """Return a row for each tab: milliseconds and processor time, first and again."""

    def cell(seconds: Sequence[float]) -> str:
        times = sorted(1000 * each for each in seconds)
        return f"{statistics.median(times):.0f} ({times[0]:.0f} to {times[-1]:.0f})"

    lines = [
        "| tab | opened | title, ms | contents, ms | processor, ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for place, (_, title, _) in enumerate(TABS):
        for name, part in (
            ("first", [each.first for each in rounds]),
            ("again", [each.again for each in rounds]),
        ):
            openings = [each[place] for each in part]
            used = 1000 * statistics.median(each.processor_s for each in openings)
            cells = cell([each.title_s for each in openings])
            cells += f" | {cell([each.contents_s for each in openings])} | {used:.0f}"
            lines.append(f"| {title[2:]} | {name} | {cells} |")
    resident = statistics.median(each.resident for each in rounds) / 2**20
    before = statistics.median(each.resident_before for each in rounds) / 2**20
    lines.append(f"\nresident memory of the program: {before:.0f} MiB, then {resident:.0f} MiB")
    return "\n".join(lines)


@contextmanager
def _program(
    folder: Path, *, over_host: bool, delay_ms: float
) -> Iterator[tuple[Sequence[str], Mapping[str, str], Sequence[str]]]:
    """Give a command, its environment, and the words that show that its screen is usable."""
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
                say(f"round {number + 1} of {chosen.rounds}")
                rounds.append(measure(argv, env, shows, chosen.settle))
    print(f"{table(rounds)}\nload {psutil.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
