"""The page of a run without CUDA: the host memory of its processes over time."""

from __future__ import annotations

import dataclasses

import pytest

from tests.screens.every_screen import Scene
from tests.screens.opened import opened
from tests.screens.watched import device, on_cpu, unread, watched
from tests.tiers import VARIANT, with_variants
from tui.allocators.messages import NO_TORCH
from tui.kit.pane import Pane

CPU = watched(on_cpu())


@pytest.mark.parametrize("size", with_variants([(80, 24), (120, 40)], [(60, 20), (200, 55)]))
async def test_a_run_on_the_cpu_has_its_host_memory_over_time(size: tuple[int, int]) -> None:
    async with opened(Scene((), (), watched=CPU), size) as on:
        assert "host memory" in on.row("pid")
        assert "allocated" not in on.text
        assert "658 MiB" in on.row("cpu")
        assert "host memory grows 240 MiB/min" in on.text
        assert "MiB over time in s" in on.text
        assert ("Output  " in on.text) == (size[1] >= 30)
        assert all(len(row) <= size[0] for row in on.rows)


@VARIANT
async def test_it_stays_when_the_run_has_ended() -> None:
    over = watched(on_cpu(ended="ended"), over=True)
    async with opened(Scene((), (), watched=over), (120, 40)) as on:
        assert "ended" in on.row("cpu")
        assert "MiB over time in s" in on.text


async def test_at_first_it_says_from_when_on_growth_is_known() -> None:
    begins = watched(on_cpu(seconds=20))
    async with opened(Scene((), (), watched=begins), (120, 40)) as on:
        assert "growth of host memory: not known yet (needs 30 s)" in on.text


@VARIANT
async def test_a_process_of_a_cuda_build_has_it_until_its_first_cuda_call() -> None:
    process = dataclasses.replace(unread().process, reason="it has not used CUDA", word="none")
    row = on_cpu(process=process)
    async with opened(Scene((), (), watched=watched(row)), (120, 40)) as on:
        assert "allocated" in on.row("pid")
        assert "host memory grows 240 MiB/min" in on.text
        assert "With its first CUDA call" in on.text
    async with opened(Scene((), (), watched=watched(device(), row)), (120, 40)) as on:
        assert "GiB over time in s" in on.text
        await on.press("down")
        assert "MiB over time in s" in on.text


async def test_a_leak_of_host_memory_is_a_finding_beside_those_of_the_gpu() -> None:
    leaks = device(findings=on_cpu().findings)
    async with opened(Scene((), (), watched=watched(leaks)), (120, 40)) as on:
        assert "host memory grows 240 MiB/min" in on.text
        assert "allocated grows 6.1 MiB/step" in on.text


async def test_a_shell_has_no_plot() -> None:
    shell = dataclasses.replace(unread().process, reason=NO_TORCH)
    async with opened(Scene((), (), watched=watched(on_cpu(process=shell))), (120, 40)) as on:
        assert "over time" not in on.text


@VARIANT
async def test_its_points_are_copied() -> None:
    async with opened(Scene((), (), watched=CPU), (120, 40)) as on:
        lines = on.app.screen.query_one("#watched-memory", Pane).clipboard_text().splitlines()
        assert "time, Unix s\thost memory (RSS), bytes" in lines
