"""A new user's path in keys and seconds; ``python -m benchmarks.path`` prints a table.

The program runs in a bare tmux. A step has keys, and the words that are on the screen once it is
done; a key follows as soon as the screen shows the effect of the previous one. The hottest of eight
GPUs comes from a scripted driver, everything else from this machine's own devices: without a GPU,
run it in ``python -m tests.simulated_gpu``, where times are invented.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.startup import driver
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import uneven_box
from tests.terminal.terminal import PROGRAM

SIZES = ((80, 24), (120, 40))
TIMEOUT_S = 150.0
POLL_S = 0.005
"""Between two readings of the screen; a reading itself takes some milliseconds."""
SNAPSHOT = "demo_out_of_memory.pickle.gz"
HOLDER = "demo_workloads.py:66 forward"
"""The line whose tensors fill the memory in it."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, and a regular expression for its effect on the screen."""

    name: str
    """tmux's name of the key; empty if the program's start shows the effect."""
    shows: str


@dataclass(frozen=True, slots=True)
class Step:
    """A user's goal, and the keys that reach it."""

    name: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of one step at one size."""

    step: Step
    answers_s: tuple[float, ...]
    """Seconds from each key, or from the start, to its effect."""

    @property
    def cell(self) -> str:
        """The seconds of all its keys."""
        return f"{sum(self.answers_s):.2f}"


LOOK_STEPS = (
    Step("find the hottest GPU, from the start", (Key("", r"91°C"),)),
    Step(
        "sort the GPUs by temperature",
        (
            Key("v", r"escape back"),
            Key("s", r"util▾"),
            Key("s", r"memory▾"),
            Key("s", r"(?s)temp▾.*?(\w+:3).*?91°C.*?74°C.*?70°C"),
        ),
    ),
)
RUN_STEPS = (
    Step("start, until runs can begin", (Key("", r"ready"),)),
    Step("run the workload under the cursor", (Key("r", r"▸ matmul.*(µs|ms).*(µs|ms).*x "),)),
    Step(
        "find matmul and sweep it",
        (
            Key("/", r"enter keeps"),
            Key("m", r"filter: m "),
            Key("a", r"filter: ma "),
            Key("t", r"filter: mat "),
            Key("Enter", r"r run"),
            Key("Enter", r"Parameters of matmul"),
            Key("F6", r"n \*.*32\.\.4096x2"),
            Key("Enter", r"▸ matmul.* 16/"),
        ),
    ),
    Step("see where the GPU overtakes", (Key("i", "overtakes cpu between n=|faster than cpu"),)),
    Step(
        "open a snapshot and find who uses the memory",
        (
            Key("3", r"o opens a snapshot"),
            Key("o", r"Open a snapshot"),
            Key("Enter", rf"(?s)Held the memory.*{re.escape(HOLDER)}"),
        ),
    ),
    Step("find who uses a GPU's memory", (Key("4", r"(?s)Processes.*GiB|MiB.*worker"),)),
)


class Tmux:
    """A program in its own tmux server."""

    def __init__(
        self, size: tuple[int, int], variables: Mapping[str, str], folder: Path, argv: Sequence[str]
    ) -> None:
        # A new socket each time, since a server that is ending still uses its own.
        self._socket = str(Path(tempfile.mkdtemp(dir=folder.parent)) / "tmux")
        columns, rows = map(str, size)
        self.started = time.perf_counter()
        command = f"cd {shlex.quote(str(folder))} && exec {shlex.join(argv)}"
        start = ("-f", os.devnull, "new-session", "-d", "-x", columns, "-y", rows, command)
        self._tmux(*start, variables={**os.environ, **variables})

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str, variables: Mapping[str, str] | None = None) -> str:
        argv = ["tmux", "-S", self._socket, *words]
        done = subprocess.run(argv, env=variables, check=True, capture_output=True, text=True)
        return done.stdout

    def press(self, key: str) -> None:
        """Type a key."""
        self._tmux("send-keys", key)

    def until(self, pattern: str) -> None:
        """Wait until the screen matches.

        Raises:
            TimeoutError: it did not within :data:`TIMEOUT_S`.
        """
        until = time.monotonic() + TIMEOUT_S
        while not re.search(pattern, screen := self._tmux("capture-pane", "-p")):
            if time.monotonic() > until:
                raise TimeoutError(f"{pattern} never came:\n{screen}")
            time.sleep(POLL_S)


def walk(steps: Sequence[Step], terminal: Tmux) -> Iterator[StepTimes]:
    """Take the steps, and yield the times of each."""
    for step in steps:
        answers = []
        for key in step.keys:
            began = time.perf_counter() if key.name else terminal.started
            if key.name:
                terminal.press(key.name)
            terminal.until(key.shows)
            answers.append(time.perf_counter() - began)
        yield StepTimes(step, tuple(answers))


def path(size: tuple[int, int], folder: Path) -> list[StepTimes]:
    """Take the whole path on a screen of that size.

    Args:
        size: columns and rows.
        folder: an empty folder for the program's files.
    """
    variables = driver(folder / "driver")
    ScriptedNvml(folder / "driver" / "libnvidia-ml.so.1", folder / "driver").change(uneven_box())
    root = Path(__file__).parents[1]
    terminal_variables = {"PYTHONPATH": str(root), "TERM": "xterm-256color"}
    home = folder / "home"
    home.mkdir()
    (home / SNAPSHOT).symlink_to(root / "tui" / "recordings" / SNAPSHOT)
    own_files = {name: variables[name] for name in ("GPU_WORKBENCH_STATE", "GPU_WORKBENCH_CONFIG")}
    # Only the driver's GPUs may appear.
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    with Tmux(size, {**variables, **terminal_variables, **hidden}, home, PROGRAM) as terminal:
        times = list(walk(LOOK_STEPS, terminal))
    with Tmux(size, {**own_files, **terminal_variables}, home, PROGRAM) as terminal:
        return [*times, *walk(RUN_STEPS, terminal)]


def table(columns: Mapping[tuple[int, int], Sequence[StepTimes]]) -> str:
    """Return a table in Markdown: a row for each step, a column of seconds for each size."""
    heads = [f"{size[0]}x{size[1]}" for size in columns]
    rows = [
        f"| step | keys | {' | '.join(f'{head}, s' for head in heads)} |",
        f"| --- | --- | {' | '.join('---' for _ in heads)} |",
    ]
    for times in zip(*columns.values(), strict=True):
        step = times[0].step
        keys = [key.name for key in step.keys if key.name]
        typed = f"{len(keys)}: {' '.join(keys)}" if keys else "0"
        rows.append(f"| {step.name} | {typed} | {' | '.join(time.cell for time in times)} |")
    return "\n".join(rows)


def main() -> None:
    """Walk and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.path")
    parser.parse_args()
    columns = {}
    for size in SIZES:
        print(f"{size[0]}x{size[1]} …", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            columns[size] = path(size, Path(folder))
        print(table({size: columns[size]}), file=sys.stderr)
    print(table(columns))


if __name__ == "__main__":
    main()
