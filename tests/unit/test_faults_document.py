"""The table of faults names tests that exist, and each of T1 to T30 has a test under its number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NUMBERS = set(range(1, 31))


def test_every_test_that_it_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", TEXT)
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(
            rf"^(?:async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert missing == []
    assert len(named) == TEXT.count("::")


def test_each_of_the_thirty_has_a_row_and_a_test_with_its_number() -> None:
    rows = {int(number) for number in re.findall(r"^\| T(\d+) \|", TEXT, re.MULTILINE)}
    assert rows == NUMBERS
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    found = re.findall(r"def test_t(\d+)_|[\"']T(\d+)[-'\"]", sources)
    assert {int(name or case) for name, case in found} >= NUMBERS
