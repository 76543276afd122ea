"""Write one record after the other into a store, printing each after it is written; never end."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from tests.results.samples import kept
from tui.results.store.database import Database


def write(place: Path, first: int) -> None:
    with Database(place, writing=True, busy_s=60) as database:
        for number in itertools.count(first):
            database.add([kept(number)])
            print(number, flush=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
