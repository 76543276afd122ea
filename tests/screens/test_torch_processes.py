"""A training that is not this program's: in the table, in a GPU's account, and by itself."""

from __future__ import annotations

from dataclasses import replace

from tests.screens.app_helpers import running
from tests.screens.helpers import GIB, NOW, STRANGER, gpu, gpu_process, sample, torch_memory
from tests.screens.watching import STORY, figures, said, seen, told, torch_process
from tui.core.events import WatchStatus
from tui.core.text.glyphs import GLYPHS

REFUSED = torch_process(
    4778, reason="Yama's ptrace_scope is 2", word="denied", advice="sudo it", refused=True
)


async def test_from_the_gpus_account_to_the_table_to_the_process_and_back() -> None:
    async with running((120, 40), "one gpu", *STORY) as at:
        # The memory pane is where it is first seen: it is read for that.
        await at.tell(seen(NOW - 0.1))
        assert at.session.torch_is_looked_at
        split = at.row(f"{STRANGER}")
        for words in ("allocated 2.0", "cached 1.5", "python train.py"):
            assert words in split
        # 4.1 of 139.8 GiB have no room in this bar.
        assert GLYPHS.slices["other_cached"] not in at.rows[2].partition("││")[2][:-1]
        await at.press("4")
        assert "allocated" in at.rows[2]
        row = at.row("python train.py")
        assert "2.0 GiB" in row
        both = (gpu_process(STRANGER, int(4.1 * GIB)), gpu_process(4778, GIB))
        await at.tell(told(torch_process(), REFUSED), sample(gpu(processes=both)))
        assert "denied" in at.row("4778")
        await at.press("down", "enter")
        assert "Yama's ptrace_scope is 2" in at.text
        await at.press("escape", "up", "enter")
        assert f"Memory of {STRANGER}" in at.rows[1]
        assert at.app.front is not None
        assert at.app.front.focused_pane == "process-memory"
        assert "cached 1.5" in at.row("allocated 2.0")
        await at.press("i")
        assert " torch " in at.row("in blocks of live tensors")
        await at.press("escape")
        assert "escape back" in at.rows[-1]
        for label in ("terminate", "sort", "filter", "device"):
            assert label not in at.rows[-1]
        await at.press("slash", "s", "t")
        assert f"Memory of {STRANGER}" in at.rows[1]
        assert "x end" in at.rows[-1]
        await at.press("x")
        assert f"End process {STRANGER}?" in at.text
        await at.press("escape")
        await at.tell(
            seen(NOW, held=int(6.1 * GIB)), said(figures(allocated=3 * GIB, ooms=4, at=NOW + 0.5))
        )
        assert "out of memory 4 times since the process began" in at.text
        # It ends while it is looked at.
        await at.tell(sample(gpu(processes=())), told())
        assert "the process has ended" in at.text
        assert "3.0 GiB" in at.text
        await at.press("escape")
        assert at.app.front.focused_pane == "processes"
        await at.tell(WatchStatus("restarting", "the watch ended: signal 9; it is restarted"))
        assert "the watch ended" in at.text
        while at.session.state.machine.selected != "cpu":
            await at.press("d")
        assert not at.session.torch_is_looked_at


async def test_a_bar_with_room_has_the_parts_of_other_processes() -> None:
    held = figures(allocated=60 * GIB, reserved=80 * GIB, active=60 * GIB, at=NOW - 0.5)
    total = gpu().memory.total
    assert total is not None
    used = 98 * GIB
    memory = replace(gpu().memory, used=used, free=total - used, driver_reserved=None)
    story = (
        told(torch_process()),
        said(held),
        seen(NOW + 0.2, held=81 * GIB, memory=memory),
        said(replace(held, at=NOW + 0.5)),
        torch_memory(at=NOW + 0.5),
    )
    async with running((80, 24), "two gpus", *story) as at:
        await at.press("2")
        bar = at.rows[2]
        shares = [bar.count(GLYPHS.slices[f"other_{part}"]) for part in ("allocated", "cached")]
        assert 30 <= shares[0] <= 36
        assert 9 <= shares[1] <= 13
        assert "others 81" in at.text
