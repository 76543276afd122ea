"""The pitfalls group on a GPU: the mistakes cost what they are said to cost."""

from __future__ import annotations

import re

import pytest

from tests.catalog.runs import column, numbers, ran
from tests.gpu.test_transfer import on_gpu
from workloads.catalog.flags.captures import TRIES

pytestmark = [pytest.mark.timeout(300)]

GPU = "cuda:0"


@pytest.mark.simulated_gpu
def test_torch_refuses_a_mixture_and_names_both_devices() -> None:
    result = on_gpu("device_mismatch")
    outcomes = dict(
        zip(
            column(result, "mixtures", "operation"),
            column(result, "mixtures", "outcome"),
            strict=True,
        )
    )
    assert outcomes["here + there"] == "RuntimeError"
    assert outcomes["number on the CPU * here"] == "no error: the result is on cuda:0"
    assert outcomes["here[indices on the CPU]"] == "no error: the result is on cuda:0"
    (line,) = (line for line in result.log if line.startswith("here + there"))
    assert "cuda:0" in line
    assert "cpu" in line


@pytest.mark.simulated_gpu
def test_a_model_left_on_the_cpu_takes_no_memory_of_the_gpu() -> None:
    result = on_gpu("model_on_cpu", batch=1024, width=1024)
    assert result.check is not None
    assert result.check.passed
    assert result.figures["gpu_bytes_of_left_model"].value == 0
    assert set(column(result, "places", "left")) == {"cpu"}
    assert set(column(result, "places", "moved")) == {"cuda:0"}


@pytest.mark.gpu
def test_item_in_each_step_lets_the_queue_run_dry() -> None:
    result = on_gpu("item_in_loop", steps=200)
    each_step, at_the_end = numbers(result, "ways", "time")
    assert each_step > at_the_end


@pytest.mark.gpu
def test_a_launch_for_each_number_is_slower_by_far() -> None:
    loop, _floats, expression = numbers(on_gpu("python_loop"), "ways", "time")
    assert loop > 100 * expression


@pytest.mark.simulated_gpu
def test_a_tiny_model_is_faster_on_the_cpu_or_says_where_the_gpu_overtakes() -> None:
    result = on_gpu("tiny_model")
    (chart,) = result.charts
    assert [line.name for line in chart.series] == ["CUDA", "CPU", "overhead"]
    assert "the GPU" in str(result.figures["crossover"].value)


@pytest.mark.gpu
def test_a_gpu_and_a_cpu_agree_as_far_as_rounding_goes() -> None:
    result = on_gpu("comparing_results")
    assert result.check is not None
    assert result.check.passed
    assert column(result, "verdicts", "cuda:0") == ["False", "False", "True"]
    assert column(result, "verdicts", "cuda:0, one product missing")[-1] == "False"


@pytest.mark.gpu
def test_the_naive_clock_reads_less_than_the_others_and_those_agree() -> None:
    naive, synchronized, events, blocks = numbers(on_gpu("naive_timing", n=8192), "clocks", "time")
    assert naive < 0.5 * min(synchronized, events, blocks)
    assert events == pytest.approx(blocks, rel=0.2)
    assert synchronized > 0.9 * events


STOPS_AT_A_WAIT = "operation not permitted when stream is capturing"
REFUSED = {
    "x.sum().item()": STOPS_AT_A_WAIT,
    "if x.sum() > 0": STOPS_AT_A_WAIT,
    "x[x > 0]": STOPS_AT_A_WAIT,
    "torch.cuda.synchronize()": STOPS_AT_A_WAIT,
    "linalg.solve(a, b)": STOPS_AT_A_WAIT,
    "host.to(device), pageable": "unless the CPU tensor is pinned",
    "x.cpu()": "unless the CPU tensor is pinned",
    "torch.tensor(2.0, device=…)": "unless the CPU tensor is pinned",
    "Adam(…).step()": "capturable is False",
    # In torch 2.13, and in 2.11.
    "randn(generator=own)": "generator is not registered|generator not in capture mode",
}


@pytest.mark.simulated_gpu
def test_a_graph_is_captured_and_what_a_capture_refuses_is_told_in_torchs_words() -> None:
    # By simulated numbers the check fails; what was captured is what is asked for here.
    result = ran("cuda_graphs", GPU)
    assert result.time is not None, (result.reason, result.trace)
    names, words = (
        column(result, "captures", heading) for heading in ("in the captured code", "outcome")
    )
    assert names == list(TRIES)
    expected = ["refused" if name in REFUSED else "captured" for name in TRIES]
    assert words == expected
    for name, words_of_torch in REFUSED.items():
        (line,) = (line for line in result.log if line.startswith(f"{name} -> "))
        assert re.search(words_of_torch, line)
    assert result.figures["captures_refused"].value == len(REFUSED)
    pool = result.figures["pool"].value
    assert isinstance(pool, float)
    assert pool >= 2**21
    # What failed elsewhere has left this process whole.
    assert ran("item_in_loop", GPU, steps=2).time is not None


@pytest.mark.gpu
def test_a_replay_does_what_launching_does_in_less_time_and_repeats_what_was_captured() -> None:
    result = on_gpu("cuda_graphs")
    assert result.check is not None
    assert result.check.passed
    launched, replayed = numbers(result, "ways", "time")
    assert replayed < launched
    assert column(result, "changes", "the replay gives") == ["2", "2", "10"]
    saved = result.figures["launches_saved"].value
    assert isinstance(saved, float)
    assert saved >= 8
