"""The faults of a soak: random, and the same for the same seed.

None ends the program or sends a signal to another program's process: the keys to quit and to end a
process are left out, as are these commands of the palette.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from benchmarks.soak.hostile import Hostile
from benchmarks.soak.screen import Screen
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Scenario, busy_box
from tui.monitor.nvml import Code
from tui.watch.screens.tab import STORED_RUNS_S

KEYS = (
    *("\t", "\x1b[Z", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H"),
    *("1", "2", "3", "4", "b", " ", "c", "d", "e", "p", "i", "l", "Z", "s", "?", "\x1b", "=", "\r"),
    *("/mat\r", "/\x1b"),
)
PALETTE = (
    "snapshot",
    "theme",
    "tab",
    "help",
    "detail",
    "log",
    "filter",
    "sort",
    "zoom",
    "device",
    "",
)
"""Words whose best match is harmless."""
SHORT = "/transfer\r1\x1b[H\x1b[B"
"""The keys that select a short workload."""
DEADLY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
SIZES = ((80, 24), (120, 40), (60, 20), (200, 60), (40, 10), (100, 30))
GPUS = 2


class Faults:
    """Chooses a fault and causes it.

    Args:
        seed: the seed of the choices.
        screen: the program's terminal.
        nvml: the driver's library.
        hostile: writes files into the program's state folder.
    """

    def __init__(self, seed: int, screen: Screen, nvml: ScriptedNvml, hostile: Hostile) -> None:
        self._random = random.Random(seed)
        self._screen = screen
        self._nvml = nvml
        self._hostile = hostile
        self.counts: dict[str, int] = {}
        self.unread: list[tuple[float, float]] = []
        """Start and end of the times when nobody read the terminal."""

    def next(self) -> None:
        """Cause one fault, then let the program run for a moment."""
        choices: Sequence[tuple[Callable[[], None], int]] = (
            (self.keys, 12),
            (self.palette, 3),
            (self.hostile_import, 1),
            (self.hostile_run, 1),
            (self.click, 4),
            (self.resize, 3),
            (self.resize_storm, 1),
            (self.run_and_cancel, 4),
            (self.driver, 4),
            (self.kill_monitor, 1),
            (self.kill_runner, 1),
            (self.kill_worker, 2),
            (self.stop_a_child, 1),
            (self.stop_reading, 1),
        )
        fault = self._random.choices(
            [choice for choice, _ in choices], [weight for _, weight in choices]
        )[0]
        self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        fault()
        self._screen.live(self._random.uniform(0.1, 1.0))

    def keys(self) -> None:
        for key in self._random.choices(KEYS, k=self._random.randint(1, 12)):
            self._screen.type(key)
            self._screen.live(0.02)

    def palette(self) -> None:
        """Choose a command by its words in a burst, with more Enters than needed."""
        self._screen.type("\x1b")
        self._screen.live(0.2)
        self._screen.type(":")
        self._screen.live(self._random.choice((0.0, 0.02, 0.3)))
        enters = "\r" * self._random.randint(0, 3)
        self._screen.type(self._random.choice(PALETTE) + enters)
        self._screen.live(0.3)
        self._screen.type("\x1b")

    def hostile_import(self) -> None:
        """Import results that no program has measured, while the results tab is open."""
        self._open("6")
        self._hostile.import_results(self._random)

    def hostile_run(self) -> None:
        """Write a run's folder as a hostile program would, and open it."""
        self._open("5")
        self._hostile.write_run(self._random)
        self._screen.live(STORED_RUNS_S + 0.5)
        self._screen.type("\x1b[H")
        self._screen.live(0.1)
        self._screen.type("\r")
        self._screen.live(1.0)
        self._screen.type("\x1b")

    def _open(self, tab: str) -> None:
        for key in ("\x1b", "\x1b", "\x1b", tab):
            self._screen.type(key)
            self._screen.live(0.2)

    def click(self) -> None:
        """Press and release a button or turn the wheel; not in the footer, which can quit."""
        columns, rows = self._screen.size
        column = self._random.randint(1, columns)
        row = self._random.randint(2, max(2, rows - 2))
        button = self._random.choice((0, 0, 64, 65))
        self._screen.type(f"\x1b[<{button};{column};{row}M\x1b[<{button};{column};{row}m")

    def resize(self) -> None:
        self._screen.resize(*self._random.choice(SIZES))

    def resize_storm(self) -> None:
        for _ in range(30):
            self._screen.resize(self._random.randint(20, 200), self._random.randint(5, 60))
            self._screen.live(0.01)
        self.resize()

    def run_and_cancel(self) -> None:
        for key in ("\x1b", "\x1b", *SHORT, "r"):
            self._screen.type(key)
            self._screen.live(0.05)
        self._screen.live(self._random.uniform(0.2, 4.0))
        self._screen.type(self._random.choice(("X", "x", "")))

    def driver(self) -> None:
        """Let the driver fail in another way, or work again."""
        box = busy_box(self._random.randint(1, GPUS))
        down = box.returns("*", code=Code.UNINITIALIZED)
        scenarios: Sequence[Scenario] = (
            box,
            box,
            box.returns("nvmlDeviceGetPowerUsage", device=0, hang=True),
            box.returns("*", device=0, code=Code.GPU_IS_LOST),
            down.returns("nvmlInitWithFlags", code=Code.DRIVER_NOT_LOADED),
            box.returns("nvmlDeviceGetUtilizationRates", code=Code.NOT_SUPPORTED),
            box.returns("*", sleep_s=0.05),
            box.returns("nvmlDeviceGetTemperatureV", crash="segv"),
            box.with_devices(),
        )
        self._nvml.change(self._random.choice(scenarios))

    def kill_monitor(self) -> None:
        self._end(self._screen.monitor())

    def kill_runner(self) -> None:
        self._end(self._screen.runner())

    def kill_worker(self) -> None:
        self._end(self._screen.worker())

    def stop_a_child(self) -> None:
        """Stop and later continue a child, as a debugger or a frozen container does."""
        victims = (self._screen.monitor(), self._screen.runner(), self._screen.worker())
        victim = self._random.choice(victims)
        if victim is None:
            return
        try:
            victim.suspend()
            self._screen.live(self._random.uniform(0.5, 7.0))
            victim.resume()
        except psutil.NoSuchProcess:
            return  # the program has replaced it meanwhile

    def stop_reading(self) -> None:
        """Leave the terminal unread for a while, as a stalled connection does."""
        began = time.monotonic()
        while time.monotonic() < began + self._random.uniform(1.0, 5.0):
            self._screen.type(self._random.choice(("1", "2")))
            self._screen.watch()
            time.sleep(0.1)
        self._screen.live(0.5)
        self.unread.append((began, time.monotonic()))

    def _end(self, victim: psutil.Process | None) -> None:
        if victim is not None:
            try:
                victim.send_signal(self._random.choice(DEADLY))
            except psutil.NoSuchProcess:
                return
