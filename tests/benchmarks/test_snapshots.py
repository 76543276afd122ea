"""How long a snapshot of a million entries takes, and how the cost grows.

Times depend on the machine, so they are printed and held against unpickling the same file in turns
with it; memory does not, so it is held to a figure.
``pytest tests/benchmarks/test_snapshots.py -m benchmark``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
SOURCE = HERE.parent / "snapshots" / "files" / "training.pickle"
MILLION = 1_000_000
FRAMES = 30
"""Added to each stack, so that a million entries take some 190 MB, as where C++ is recorded."""
PAIRS = 7
MOST_RSS = 1 << 30
MOST_TIMES = 2.2
"""The processor time of the bare unpickling, on whatever cores."""
MOST_GROWTH = 1.4
MOST_FOR_A_TIMELINE = 0.5
"""Of the processor time of the bare unpickling: one answer while somebody looks at it."""


def _file(folder: Path, entries: int) -> Path:
    target = folder / f"{entries}.pickle"
    arguments = [str(SOURCE), str(target), str(entries), str(FRAMES)]
    subprocess.run([sys.executable, "-m", "tests.snapshots.clones", *arguments], check=True)
    return target


def _took(path: Path, *how: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / "snapshot_probe.py"), str(path), *how]
    found: dict[str, float] = json.loads(subprocess.check_output(command, text=True))
    found["total_s"] = found["load_s"] + found["summary_s"]
    return found


def _command(path: Path) -> subprocess.Popen[bytes]:
    """``gpu-workbench snapshot``, begun."""
    command = [sys.executable, "-m", "tui", "snapshot", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _answered(path: Path) -> float:
    """Seconds until its text is there."""
    began = time.perf_counter()
    with _command(path) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        seconds = time.perf_counter() - began
        process.stdout.read()
    assert process.returncode == 0
    return seconds


def _resident(path: Path) -> int:
    """Return the most bytes that all of its processes had at once, shared pages counted once."""
    most = 0
    with _command(path) as process:
        while process.poll() is None:
            tree = [psutil.Process(process.pid)]
            tree += tree[0].children(recursive=True)
            most = max(most, sum(map(_share, tree)))
            time.sleep(0.02)
    assert process.returncode == 0
    return most


def _share(process: psutil.Process) -> int:
    try:
        found: int = process.memory_full_info().pss
    except psutil.NoSuchProcess:
        return 0
    return found


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def test_a_million_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path, MILLION)
    ours, bare, commands = [], [], []
    for _ in range(PAIRS):
        bare.append(_took(path, "bare"))
        ours.append(_took(path))
        commands.append(_answered(path))

    def times(key: str) -> list[float]:
        return sorted(a[key] / b[key] for a, b in zip(ours, bare, strict=True))

    rss = max(*(each["rss"] for each in ours), _resident(path))
    whole = sorted(commands)

    def median(key: str, of: list[dict[str, float]]) -> float:
        return statistics.median(each[key] for each in of)

    with capsys.disabled():
        print(
            f"\n{MILLION} entries, {path.stat().st_size / 1e6:.0f} MB: "
            f"load {median('load_s', ours):.2f} s, summary {median('summary_s', ours):.2f} s, "
            f"together {median('total_s', ours):.2f} s "
            f"({min(each['total_s'] for each in ours):.2f} to "
            f"{max(each['total_s'] for each in ours):.2f}), bare unpickling "
            f"{median('total_s', bare):.2f} s; {_spread(times('total_s'))} times its time and "
            f"{_spread(times('cpu_s'))} times its processor time; "
            f"at most {rss / 2**20:.0f} MiB; a timeline at most "
            f"{max(each['timeline_cpu_s'] for each in ours):.2f} s of processor time; "
            "the whole command "
            f"{statistics.median(whole):.2f} s ({whole[0]:.2f} to {whole[-1]:.2f})"
        )
    assert rss <= MOST_RSS
    assert statistics.median(times("cpu_s")) <= MOST_TIMES
    slowest = sorted(a["timeline_cpu_s"] / b["cpu_s"] for a, b in zip(ours, bare, strict=True))
    assert statistics.median(slowest) <= MOST_FOR_A_TIMELINE


def test_the_cost_grows_with_the_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    per_million: list[tuple[int, float, float]] = []
    for millions in (1, 2, 4):
        path = _file(tmp_path, millions * MILLION)
        runs = [_took(path) for _ in range(3)]
        path.unlink()
        fastest = min(each["total_s"] for each in runs)
        most = max(each["rss"] for each in runs)
        per_million.append((millions, fastest / millions, most / millions))
    with capsys.disabled():
        for millions, seconds, rss in per_million:
            print(f"\n{millions} million: {seconds:.2f} s and {rss / 2**20:.0f} MiB each", end="")
        print()
    assert per_million[-1][1] <= MOST_GROWTH * per_million[0][1]
    assert per_million[-1][2] <= per_million[0][2]
