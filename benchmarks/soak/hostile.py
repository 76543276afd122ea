"""Files that no honest program writes: results to be imported, and folders of runs."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.results.samples import kept
from tui.results.store.exchange import encode_lines

NO_PID = 2**22 + 1
"""Above the highest pid of Linux."""
MOST_RUNS = 6
"""Folders at a time; the oldest is deleted."""
IMPORT_S = 60.0
TIMES = ("1e12", "1e300", "-1e300", "-1e11", "Infinity", "NaN", "-0.0", "1e999")
NAMES = ("x" * 100_000, "\u001b[2J", "[/x]", "", "\ud800")
DEEP = "[" * 99_999
LINES = (
    DEEP,
    '{"event":' * 9_999,
    "{}",
    "null",
    '{"event": "step", "at": "yesterday", "step": {}}',
    '{"event": "oom", "at": 1e308, "asked": -1, "device": [], "text": 7}',
    '{"event": "end", "at": [], "kind": 5, "steps": "many", "ooms": null}',
    '{"event": 7, "at": true}',
    "\x00" * 4096,
    "x" * 2_000_000,
)


class Hostile:
    """Fills a state folder with files that no honest program writes.

    Args:
        state: the folder.
        variables: the program's environment, for its import command.
    """

    def __init__(self, state: Path, variables: Mapping[str, str]) -> None:
        self._state = state
        self._variables = variables
        self._runs: list[Path] = []
        self._number = 0

    def import_results(self, choice: random.Random) -> None:
        """Import a file with one impossible line by ``results import``."""
        text = "\n".join(encode_lines([kept(int(time.time()) - 2000 + choice.randrange(600))]))
        fault = choice.choice(("at", "median_s", "workload", "depth", "none"))
        if fault == "depth":
            text = f"{text}\n{DEEP}"
        elif fault in ("at", "median_s"):
            text = _with_value(text, fault, choice.choice(TIMES))
        elif fault == "workload":
            text = text.replace('"matmul"', f'"{choice.choice(NAMES)}"')
        path = self._state.parent / "hostile.jsonl"
        path.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
        subprocess.run(
            [sys.executable, "-m", "tui", "results", "import", str(path)],
            env=dict(self._variables),
            capture_output=True,
            timeout=IMPORT_S,
            check=False,
        )

    def write_run(self, choice: random.Random) -> None:
        """Write a run's folder with invalid files."""
        self._number += 1
        folder = self._state / "runs" / f"hostile-{self._number}"
        folder.mkdir(parents=True, mode=0o700)
        now = time.time()
        facts: dict[str, Any] = {
            "schema": 1,
            "command": ["python", "train.py"],
            "cwd": "/",
            "began": now + 1e6,  # first in the list
            "pid": NO_PID,
            "start_ticks": 1,
            "ended": choice.choice((None, now, "soon", 1e300)),
            "code": choice.choice((0, None, "7", [])),
        }
        if choice.random() < 0.4:
            facts[choice.choice(("began", "command", "cwd"))] = choice.choice(("x", {}, 1e300, []))
        (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
        begin = {"event": "begin", "at": now, "pid": NO_PID, "identity": f"h-{NO_PID}-1"}
        if choice.random() < 0.5:
            begin["at"] = choice.choice(("text", None, 1e300))
        lines = [json.dumps(begin), *choice.choices(LINES, k=6)]
        (folder / f"{NO_PID}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        (folder / "samples.jsonl").write_text("\n".join(choice.choices(LINES, k=4)))
        (folder / "output.log").write_bytes(choice.randbytes(10_000))
        self._runs.append(folder)
        if len(self._runs) > MOST_RUNS:
            shutil.rmtree(self._runs.pop(0))


def _with_value(text: str, name: str, value: str) -> str:
    """Replace each value of that name by a number, even one that JSON does not allow."""
    return re.sub(rf'("{name}": ?)[-0-9.eE+]+', rf"\g<1>{value}", text)
