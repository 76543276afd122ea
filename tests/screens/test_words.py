"""Each view has few words: what explains a figure is behind ``i``.

``docs/pictures.py --words`` counts them for every screen, and ``--text`` prints the screens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.screens.every_screen import scenes
from tests.screens.helpers import count_words
from tests.screens.opened import opened, store_results
from tests.tiers import with_variants

MOST_WORDS = {
    # A machine is met here for the first time: names alone did not say what there is to run, so the
    # workloads of the first group have a title each.
    "first": 150,
    "busy": 260,
    "help": 185,
    "idle": 185,
    "measured": 265,
    "memory": 125,
    "results-list": 160,
    "results-compared": 135,
    "snapshot-verdict": 205,
    "watch-oom": 155,
    "watch-run": 145,
}
"""Words of a view at 120x40, at most."""


FEW = ("busy", "memory", "results-list", "snapshot-verdict", "watch-run")
"""Views that the default run counts: one of each tab."""


@pytest.mark.parametrize(
    "name", with_variants(FEW, [name for name in MOST_WORDS if name not in FEW])
)
async def test_a_view_has_few_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    scene = scenes()[name]
    store_results(scene)
    async with opened(scene, (120, 40)) as on:
        assert count_words(on.rows) <= MOST_WORDS[name], on.text
