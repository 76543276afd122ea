"""Peaks of small trainings on this machine's GPU, and in their rehearsals.

``python -m benchmarks.rehearsed --gpu h100 [NAME ...]`` runs each of :mod:`benchmarks.trainings` on
the GPU and in ``gpu-workbench rehearse``, with the same torch, and prints a table in Markdown. The
card is the one that the machine has. Docs: docs/readings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.trainings import PROGRAMS

MIB = 2**20
Peaks = Mapping[str, int | None]


class FailedError(Exception):
    """A program failed; the text is the last line of its output."""


def run(name: str, file: Path, before: Sequence[str] = ()) -> Peaks:
    """Return the peaks of a training.

    Args:
        name: the training.
        file: where it writes its peaks; the file may not exist.
        before: words before the command.

    Raises:
        FailedError: the training failed.
    """
    command = [*before, sys.executable, "-m", "benchmarks.trainings", name, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not file.exists():
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise FailedError(lines[-1] if lines else f"exit code {done.returncode}")
    peaks: Peaks = json.loads(file.read_text())
    return peaks


def row(name: str, real: Peaks, rehearsed: Peaks) -> str:
    """Return a line of the table: the real peaks in MiB, and the rehearsal's difference."""
    cells = [name]
    for peak in ("requested", "reserved"):
        size, other = real[peak], rehearsed[peak]
        assert size is not None
        assert other is not None
        apart = "equal" if size == other else f"{100 * (other / size - 1):+.2f}%"
        cells += [f"{size / MIB:.1f}", apart]
    for peaks in (real, rehearsed):
        beside = peaks["beside"]
        cells.append("n/a" if beside is None else f"{beside / MIB:.0f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--gpu", required=True, help="the card, as for rehearse")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(PROGRAMS))
    if unknown:
        parser.error(f"no such training: {', '.join(unknown)}")
    rehearse = (
        sys.executable,
        "-m",
        "tui",
        "rehearse",
        "--gpu",
        arguments.gpu,
        "--steps",
        "0",
        "--",
    )
    titles = (
        "Requested, MiB",
        "rehearsed",
        "Reserved, MiB",
        "rehearsed",
        "Beside, MiB",
        "rehearsed",
    )
    print(f"| Program | {' | '.join(titles)} |\n|{' --- |' * 7}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or PROGRAMS:
            try:
                real = run(name, Path(folder, f"{name}.real"))
                rehearsed = run(name, Path(folder, f"{name}.rehearsed"), rehearse)
            except FailedError as error:
                print(f"| {name} | {error} |", flush=True)
            else:
                print(row(name, real, rehearsed), flush=True)


if __name__ == "__main__":
    main()
