"""A device that is there for one sample and gone in the next, while the screen changes."""

from __future__ import annotations

import pytest

from tests.screens.driving import settle
from tests.screens.helpers import PaneApp, clock, gpu, make_store, sample, stylesheets, uuid
from tui.devices.screens.account_panes import MemoryPane
from tui.devices.screens.memory_tab import MemoryView
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected


@pytest.mark.parametrize("pane", [MemoryPane, MemoryView])
@pytest.mark.parametrize("key", [CPU, uuid(0)])
async def test_t23_a_pane_is_drawn_between_the_loss_of_its_device_and_the_next_account(
    pane: type[MemoryPane] | type[MemoryView], key: str
) -> None:
    state = make_store("two gpus", DeviceSelected(key))
    made: list[MemoryPane | MemoryView] = []

    def make() -> MemoryPane | MemoryView:
        made.append(pane(state.machine, clock))
        return made[-1]

    app = PaneApp(make, stylesheets())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        state.publish(DeviceSelected(uuid(0) if key == CPU else CPU))
        state.publish(sample())
        for rows in (20, 10):
            app.pane.styles.height = rows
            made[-1].body.rebuild()
            await settle(pilot)
        state.publish(sample(gpu(0), gpu(1)))
        made[-1].body.rebuild()
        await settle(pilot)
