"""Write one record after the other into a store, printing each after it is written.

Arguments: the store, the number of the first record, and optionally how many records; else it
never ends. It begins once a line is on its standard input.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.results.samples import kept
from tui.results.store.database import Database


def write(place: Path, numbers: Iterable[int]) -> None:
    with Database(place, writing=True, busy_s=200) as database:
        for number in numbers:
            database.add([kept(number)])
            print(number, flush=True)


if __name__ == "__main__":
    place, first, *count = sys.argv[1:]
    numbers = itertools.count(int(first))
    sys.stdin.readline()
    write(Path(place), itertools.islice(numbers, int(count[0])) if count else numbers)
