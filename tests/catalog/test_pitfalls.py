"""The pitfalls group on the CPU, small: the mistake is shown, the error told, the fix works."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from workloads.catalog.first_steps.measuring import tolerance
from workloads.catalog.flags import cuda_graph
from workloads.catalog.flags.captures import NOT_TRIED, TRIES, outcomes
from workloads.measure.timing import Cancelled


def by_the_clock(test: Callable[[], None]) -> Callable[[], None]:
    """Mark a test that compares times as a slow benchmark."""
    return pytest.mark.benchmark(pytest.mark.slow(test))


def test_a_mixture_of_devices_raises_what_is_told_and_the_fix_works() -> None:
    result = ran("device_mismatch", batch=8, width=8)
    assert result.status == "ok"
    outcomes = {row[0]: str(row[1]) for row in result.tables[0].rows}
    assert outcomes["here + there"] == "RuntimeError"
    (said,) = (line for line in result.log if line.startswith("here + there -> "))
    assert "RuntimeError: " in said
    assert "meta" in said
    assert outcomes["moved input, model left"] == "RuntimeError"
    assert outcomes["here + input.to(here.device)"] == "no error: the result is on cpu"
    assert outcomes["number on the CPU * here"].startswith("no error")
    assert outcomes["here[indices on the CPU]"] == "no error: the result is on cpu"
    assert result.figures["device_of_the_fixed_result"].value == "cpu"
    assert any("meta device stands in" in line for line in result.log)


def test_two_right_results_are_not_close_by_the_defaults_and_are_by_what_rounding_explains() -> (
    None
):
    result = ok("comparing_results", n=600)
    assert result.check is not None
    assert result.check.passed
    right, incomplete = (
        column(result, "verdicts", name)
        for name in ("another order", "another order, one product missing")
    )
    assert right == ["False", "False", "True"]
    assert incomplete == ["False"] * 3
    assert numbers(result, "errors", "error")[0] > 0
    entries = result.figures["entries_not_close"].value
    assert isinstance(entries, float)
    assert 0 < entries < 600 * 600 / 2


@pytest.mark.parametrize(("n", "least", "most"), [(2, 0, 2), (8, 1, 30), (32, 45, 50)])
def test_how_many_rows_it_takes_until_allclose_says_no(n: int, least: int, most: int) -> None:
    refused = 0
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        x, y = (torch.randn(n, n, generator=generator) for _ in range(2))
        order = torch.randperm(n, generator=generator)
        refused += not torch.allclose(x @ y, x[:, order] @ y[order])
    assert least <= refused <= most


@given(st.integers(2, 100))
def test_rounding_alone_stays_within_the_tolerance_and_wrong_data_does_not(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x, y = (torch.randn(n, n, generator=generator) for _ in range(2))
    exact = x.double() @ y.double()
    allowed = tolerance(n, float((x.abs() @ y.abs()).max()), tf32=False)
    assert float((x @ y - exact).abs().max()) <= allowed
    assert float((x @ y.flip(0) - exact).abs().max()) > allowed


def test_the_loss_of_a_model_left_on_the_cpu_falls_all_the_same() -> None:
    result = ran("model_on_cpu", batch=16, width=16)
    assert result.status == "ok"
    assert result.check is not None
    assert result.check.passed
    first, last = (result.figures[name].value for name in ("first_loss", "last_loss"))
    assert isinstance(first, float)
    assert isinstance(last, float)
    assert last < first
    assert [row[2] for row in result.tables[0].rows] == ["cpu"] * 6
    assert str(result.figures["input_alone_moved"].value).startswith("RuntimeError: ")
    assert result.figures["speed_up_by_moving"].value is None
    assert result.unavailable["figures.speed_up_by_moving"]


def test_item_each_step_gives_the_same_sum_and_on_a_cpu_nothing_waits() -> None:
    result = ran("item_in_loop", steps=10, width=8, batch=8)
    assert result.status == "ok"
    assert result.check is not None
    assert result.check.passed
    assert [row[0] for row in result.tables[0].rows][1] == "one .item() at the end"
    assert result.unavailable["figures.wait_per_step"]


def test_one_expression_gives_what_a_loop_over_its_elements_gives() -> None:
    result = ran("python_loop", n=500)
    assert result.status == "ok"
    assert result.check is not None
    assert result.check.passed
    assert len(numbers(result, "ways", "time")) == 3
    assert result.charts[0].places == (16, 64, 256, 500)


@by_the_clock
def test_one_expression_is_faster_than_a_loop_over_its_elements() -> None:
    loop, floats, expression = numbers(ran("python_loop", n=500), "ways", "time")
    assert loop > 10 * expression
    assert loop > floats


def test_the_overhead_of_a_tiny_model_is_all_at_the_smallest_width() -> None:
    result = ran("tiny_model", width=4, batch=4)
    assert result.status == "ok"
    chart = result.charts[0]
    share = dict(zip(chart.places, chart.series[-1].values, strict=True))
    assert share[4] == 100
    assert 1024 in share
    assert result.unavailable["figures.crossover"]
    assert chart.marks


@by_the_clock
def test_the_overhead_share_of_a_tiny_model_falls_with_its_width() -> None:
    chart = ran("tiny_model", width=4, batch=4).charts[0]
    share = dict(zip(chart.places, chart.series[-1].values, strict=True))
    wide = share[1024]
    assert wide is not None
    assert wide < 50


def test_a_replay_that_does_less_than_the_launches_is_noticed() -> None:
    start, launched = [torch.zeros(3)], [torch.tensor([0.0, 0.5, 1.0])]
    near = [torch.tensor([0.0, 0.5, 1.001])]
    assert cuda_graph.same_update(start, launched, near).passed
    for wrong in (start, [torch.tensor([0.0, 0.4, 1.0])]):
        assert not cuda_graph.same_update(start, launched, wrong).passed
    assert not cuda_graph.same_update(start, start, start).passed


@pytest.mark.slow
@pytest.mark.skipif(
    torch.version.cuda is not None, reason="for a torch that was built without CUDA"
)
def test_captures_that_cannot_be_tried_say_why_and_a_cancel_ends_the_process_that_tries() -> None:
    came = list(outcomes(torch.device("cuda:0"), lambda: None))
    assert [outcome.name for outcome in came] == list(TRIES)
    assert {outcome.word for outcome in came} == {NOT_TRIED}
    assert all(outcome.reason for outcome in came)

    def cancel() -> None:
        raise Cancelled

    before = psutil.Process().children()
    with pytest.raises(Cancelled):
        list(outcomes(torch.device("cuda:0"), cancel))
    assert psutil.Process().children() == before
