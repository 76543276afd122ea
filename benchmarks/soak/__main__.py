"""Run the program under random faults: ``python -m benchmarks.soak --minutes 30 --seed 1``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from benchmarks.soak.soak import soak


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    report = soak(60 * arguments.minutes, arguments.seed, _print_progress)
    print(json.dumps({**asdict(report), "problems": report.problems}, indent=2))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
