"""What the framework keeps of sizes that the terminal had is given up."""

from __future__ import annotations

from tests.screens.fakes import FakeSession
from tests.screens.helpers import make_store
from tui.app.workbench import WorkbenchApp
from tui.terminal import geometry

SIZES = [(80 + 3 * step, 24 + step) for step in range(12)]


async def test_many_sizes_cost_no_more_than_one() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    kept = []
    async with app.run_test(size=SIZES[0]) as pilot:
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            kept.append(geometry.kept())
    assert min(kept) > 0
    assert kept[-1] < 3 * kept[1]
