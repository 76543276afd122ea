"""Data that markup would eat or die of is shown as it is, in every pane and dialog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import (
    CUDNN_FLAGS,
    HOSTILE,
    environment,
    gpu,
    hello,
    host,
    sample,
    torch_gpu,
    workload,
)
from tests.screens.results import compared, ran
from tests.tiers import with_variants
from tui.core.events import LogLine, RunnerStatus
from tui.recordings.lines import AnyEvent
from workloads.protocol import messages
from workloads.protocol.results import ParameterInfo

SIZE = (200, 50)
NAME = "conv[NHWC] [/x]"


def hostile_events() -> list[AnyEvent]:
    parameter = ParameterInfo("layout[/]", "[NHWC]", HOSTILE, ("[NHWC]", "[/x]", "[red]"))
    info = workload(
        NAME,
        group=HOSTILE,
        title=HOSTILE,
        about=HOSTILE,
        look_for=HOSTILE,
        code=HOSTILE,
        parameters=(parameter,),
    )
    flags = tuple(replace(flag, title=f"{flag.title}[/]") for flag in CUDNN_FLAGS)
    there = environment(torch_gpu(name=HOSTILE), flags=flags, torch="2.13[/x]")
    result = ran(
        NAME,
        parameters={"layout[/]": "[NHWC]"},
        status="failed",
        time=None,
        reason=HOSTILE,
        trace=f"Error: {HOSTILE}",
        warnings=(HOSTILE,),
    )
    request = replace(result[0].request, parameters={"layout[/]": "[NHWC]"})  # type: ignore[union-attr]
    return [
        sample(gpu(name=HOSTILE), host=host(name="box[/x]")),
        hello(info),
        messages.Ready(there, 1.0),
        type(result[0])(request),  # type: ignore[call-arg, arg-type]
        result[1],
        *compared(workload=NAME, status="failed", reason=HOSTILE),
        LogLine("runner", HOSTILE, "error"),
    ]


@pytest.fixture(params=with_variants([SIZE, (60, 20)], [(80, 24)]), ids=str)
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    found: tuple[int, int] = request.param
    return found


async def test_every_pane_survives_at_every_size(size: tuple[int, int]) -> None:
    async with running(size, "one gpu", *hostile_events()) as on:
        await on.tell(RunnerStatus("restarting", HOSTILE, HOSTILE, "/state/[/x].txt"))
        for key in ("tab", "tab", "l", "l", "tab", "tab", "2", "question_mark", "escape", "1"):
            await on.press(key)
        assert on.rows[0].startswith(" gpu-workbench")


async def test_it_is_shown_as_it_is() -> None:
    async with running(SIZE, "one gpu", *hostile_events()) as on:
        assert "box[/x]" in on.rows[0]
        assert "torch 2.13[/x]" in on.rows[0]
        assert f"▾ {HOSTILE}" in on.text
        assert on.row(f"▸ {NAME} ")
        assert "cuda:0 failed: [/x] [cuda:0]" in on.row(f"▸ {NAME}")
        assert "[ ] benchmark[/]" in on.text
        # The narrow column has one line for the comparison.
        assert on.row(f"{NAME} on cuda:0: benchma")
        await on.press("i", "Z")
        for words in (
            f"Detail   {NAME}",
            f"{NAME}: {HOSTILE}",
            f"Look for: {HOSTILE}",
            f"layout[/] = [NHWC]: {HOSTILE} ([NHWC], [/x], [red])",
            f"  {HOSTILE}",
            f"! {HOSTILE}",
            f"Error: {HOSTILE}",
        ):
            assert words in on.text
        await on.press("l")
        assert f"runner error: {HOSTILE}" in on.text


async def test_the_editor_shows_it_as_it_is() -> None:
    async with running(SIZE, "one gpu", *hostile_events()) as on:
        await on.press("equals_sign")
        assert on.row(f"Parameters of {NAME}")
        assert on.row("layout[/]")
        assert "[[NHWC]] [/x]  [red]" in on.text
        await on.press("right", "enter")
        assert on.asked == [("set_parameters", NAME, {"layout[/]": "[/x]"})]
        assert on.row(f"▸ {NAME}* ")


async def test_notes_and_a_hostile_filter() -> None:
    async with running((80, 24), "one gpu", *hostile_events()) as on:
        await on.tell(RunnerStatus("unusable", HOSTILE, HOSTILE))
        assert f"Nothing can be run: {HOSTILE}" in on.text
        await on.press("slash", *"[/x]")
        assert "filter: [/x]" in on.text
