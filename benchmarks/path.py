"""A new user's path, by keys and by the clock; ``python -m benchmarks.path`` prints a table.

The program runs in a bare tmux. Each step is told by its keys and by the words that are on the
screen once it is done; a key is pressed as soon as the one before it was taken. The hottest GPU is
looked for beside a scripted driver of eight GPUs, everything else on this machine's own devices:
on a machine without any, run it in ``python -m tests.simulated_gpu``, where times are invented.
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
PATIENCE_S = 150.0
POLL_S = 0.005
"""Between two looks at the screen; a look takes some milliseconds itself."""
SNAPSHOT = "demo_out_of_memory.pickle.gz"
HOLDER = "demo_workloads.py:76 timed"
"""What holds the memory in it."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, and a regular expression of what shows that it was taken."""

    name: str
    """As tmux calls it."""
    shows: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is wanted, and how one gets it; without keys it is there at once."""

    name: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Took:
    """One step on one screen."""

    step: Step
    answers_s: tuple[float, ...]
    """From each key until the screen showed that it was taken; without keys from the start."""

    @property
    def cell(self) -> str:
        """Seconds of all its keys."""
        return f"{sum(self.answers_s):.2f}"


LOOK = (
    Step("find the hottest GPU, from the start", (Key("", r"91°C"),)),
    Step(
        "sort the GPUs by heat",
        (
            Key("v", r"escape back"),
            Key("s", r"util▾"),
            Key("s", r"memory▾"),
            Key("s", r"(?s)temp▾.*?(\w+:3).*?91°C.*?74°C.*?70°C"),
        ),
    ),
)
RUN = (
    Step("start, until runs can be asked for", (Key("", r"ready"),)),
    Step("run the workload under the cursor", (Key("r", r"▸ transfer.*(µs|ms).*(µs|ms).*x "),)),
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
        "open a snapshot and name who holds the memory",
        (
            Key("3", r"o opens a snapshot"),
            Key("o", r"Open a snapshot"),
            Key("Enter", rf"(?s)Held the memory.*{re.escape(HOLDER)}"),
        ),
    ),
    Step("name who holds a GPU's memory", (Key("4", r"(?s)Processes.*GiB|MiB.*worker"),)),
)


class Tmux:
    """A program in a tmux of its own."""

    def __init__(
        self, size: tuple[int, int], variables: Mapping[str, str], folder: Path, argv: Sequence[str]
    ) -> None:
        # One of its own: a server that is ending still holds its socket.
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
        """Wait until the screen has it.

        Raises:
            TimeoutError: it has not come.
        """
        until = time.monotonic() + PATIENCE_S
        while not re.search(pattern, screen := self._tmux("capture-pane", "-p")):
            if time.monotonic() > until:
                raise TimeoutError(f"{pattern} never came:\n{screen}")
            time.sleep(POLL_S)


def walk(steps: Sequence[Step], terminal: Tmux) -> Iterator[Took]:
    """Go through steps, one after the other."""
    for step in steps:
        answers = []
        for key in step.keys:
            began = time.perf_counter() if key.name else terminal.started
            if key.name:
                terminal.press(key.name)
            terminal.until(key.shows)
            answers.append(time.perf_counter() - began)
        yield Took(step, tuple(answers))


def path(size: tuple[int, int], folder: Path) -> list[Took]:
    """Take the whole path on a screen of that size.

    Args:
        size: columns and rows.
        folder: empty; the program is started in it.
    """
    variables = driver(folder / "driver")
    ScriptedNvml(folder / "driver" / "libnvidia-ml.so.1", folder / "driver").change(uneven_box())
    root = Path(__file__).parents[1]
    where = {"PYTHONPATH": str(root), "TERM": "xterm-256color"}
    home = folder / "home"
    home.mkdir()
    (home / SNAPSHOT).symlink_to(root / "tui" / "recordings" / SNAPSHOT)
    kept = {name: variables[name] for name in ("GPU_WORKBENCH_STATE", "GPU_WORKBENCH_CONFIG")}
    # The driver's GPUs are to be looked at alone.
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    with Tmux(size, {**variables, **where, **hidden}, home, PROGRAM) as terminal:
        found = list(walk(LOOK, terminal))
    with Tmux(size, {**kept, **where}, home, PROGRAM) as terminal:
        return [*found, *walk(RUN, terminal)]


def table(columns: Mapping[tuple[int, int], Sequence[Took]]) -> str:
    """Markdown: a row for each step, a column of seconds for each size."""
    heads = [f"{size[0]}x{size[1]}" for size in columns]
    rows = [
        f"| step | keys | {' | '.join(f'{head}, s' for head in heads)} |",
        f"| --- | --- | {' | '.join('---' for _ in heads)} |",
    ]
    for took in zip(*columns.values(), strict=True):
        keys = [key.name for key in took[0].step.keys if key.name]
        typed = f"{len(keys)}: {' '.join(keys)}" if keys else "0"
        seconds = " | ".join(each.cell for each in took)
        rows.append(f"| {took[0].step.name} | {typed} | {seconds} |")
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
