"""The snapshot tab without a file, and with a file that has neither a history nor stacks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.screens.app_helpers import running
from tests.screens.test_snapshot import DEMO, open_file, press
from tests.snapshots.scenes import segment
from tests.tiers import VARIANT


def bare_file(folder: Path) -> str:
    """Return a file without a history and without stacks."""
    path = folder / "bare.pickle"
    raw = {
        "segments": [segment(0, [("allocated", 4)], stacks=False)],
        "device_traces": [[]],
        "allocator_settings": {},
    }
    path.write_bytes(pickle.dumps(raw))
    return str(path)


@VARIANT
async def test_without_a_history_no_key_leads_to_another_moment(tmp_path: Path) -> None:
    async with running((120, 40)) as on:
        await open_file(on, bare_file(tmp_path))
        for view in ("L", "a", "f", "B"):
            await press(on, view)
            footer = on.rows[-1]
            for words in ("p peak", "n next", "E end", "i stack"):
                assert words not in footer, view
            assert ("b group by" in footer) is (view == "a"), "sizes and pools are known"
            assert "+ closer" not in footer or view == "B"
        await open_file(on, str(DEMO))
        await press(on, "f")
        for words in ("p peak", "n next OOM", "E end", "b group by"):
            assert words in on.rows[-1]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_an_empty_view_is_a_block_at_one_place(size: tuple[int, int], tmp_path: Path) -> None:
    async with running(size) as on:
        await on.press("3")
        await on.until(lambda: "Open the example snapshot" in on.text)
        assert "Snapshot ━" in on.rows[1] or "Snapshot ─" in on.rows[1], "no empty row above it"
        first = next(row for row in on.rows if "Open the example" in row)
        words = next(row for row in on.rows if "o opens a snapshot" in row)
        left = words.index("o opens")
        assert first.index("Open the") == left, "aligned"
        top = on.rows.index(first)
        await open_file(on, bare_file(tmp_path))
        for key, start in (("C", "c chooses"), ("f", "The file has"), ("L", "The file has")):
            await press(on, key)
            row = next(row for row in on.rows if start in row)
            assert row.index(start) == left, on.text
            # The views have a line of their names above them.
            assert abs(on.rows.index(row) - top) <= 2, on.text
