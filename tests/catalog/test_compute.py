"""Products, attention, chains and reductions: counts against formulas, tables, settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran, ran_under, table
from tests.catalog.stand_ins import GpuByName, studied
from tests.tiers import VARIANT, with_variants
from workloads.catalog.first_steps.matmul_shapes import SHAPES
from workloads.catalog.flags import attention, attention_functions, compiled, precisions
from workloads.catalog.flags.attention import (
    CAUSAL,
    FULL,
    PADDING,
    AttentionShape,
    explain_refusal,
)
from workloads.catalog.health import products
from workloads.catalog.shared.products import Shape, bound_by
from workloads.catalog.shared.tools import ProfilerRow
from workloads.declare import place
from workloads.declare.place import Place
from workloads.declare.study import Study
from workloads.declare.workload import Case
from workloads.limits import limit_lookup, limits
from workloads.limits.ceilings import Ceilings
from workloads.measure import environment, estimates
from workloads.measure.timing import Control
from workloads.protocol.results import COPY, Ceiling, Rates, Setting
from workloads.runner.execute import unmet

MIB = 2**20


def test_a_cpu_that_multiplies_in_another_order_is_not_said_to_round() -> None:
    on = Place("cpu")
    a, b = on.randn(512, 512), on.randn(512, 512)
    before = torch.get_float32_matmul_precision()
    told = precisions._name_rounded_precision(on, a, b)
    assert torch.get_float32_matmul_precision() == before
    try:
        torch.set_float32_matmul_precision("medium")
        error = precisions._error(a @ b, a.double() @ b.double())
    finally:
        torch.set_float32_matmul_precision(before)
    # bfloat16 has 8 bits of precision, float32 has 24.
    assert told == ("bfloat16" if error > 2**-13 else "float32")


def test_the_error_of_tf32_is_some_hundred_times_that_of_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(512, 512, generator=generator) for _ in range(2))

    def rounded(x: torch.Tensor) -> torch.Tensor:
        """To 10 bits of mantissa, halves to even, as the tensor cores' converters do."""
        bits = x.view(torch.int32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)

    exact = a.double() @ b.double()
    grown = precisions._error(rounded(a) @ rounded(b), exact) / precisions._error(a @ b, exact)
    assert 100 < grown < 3000


@VARIANT
def test_products_of_several_shapes_come_with_the_facts_of_a_result() -> None:
    result = ok("matmul_shapes")
    facts = dict(
        zip(
            column(result, "facts", "fact"),
            column(result, "facts", "of plain factors"),
            strict=True,
        )
    )
    assert facts["shape"] == "(1000, 200)"
    assert facts["dtype"] == "torch.float32"
    assert (facts["requires_grad"], facts["is_leaf"]) == ("False", "True")
    recorded = column(result, "facts", "where x requires a gradient")
    assert recorded[4:7] == ["True", "False", "MmBackward0"]
    assert len(column(result, "shapes", "product")) == len(SHAPES) + 1
    assert result.log[1].startswith("tensor([[")
    assert result.rates.flop_per_s is not None
    assert result.time is not None
    assert result.rates.flop_per_s * result.time.median_s == pytest.approx(2 * 1000 * 500 * 200)


@given(*[st.integers(1, 300)] * 4)
def test_the_counter_agrees_with_the_formula_for_products(
    batch: int, m: int, k: int, n: int
) -> None:
    meta = torch.device("meta")
    a, b = torch.empty(batch, m, k, device=meta), torch.empty(batch, k, n, device=meta)
    assert place.count_flop(lambda: torch.matmul(a, b)) == Shape("", m, k, n, batch).flop


@given(*[st.integers(1, 64)] * 4)
def test_the_counter_agrees_with_the_formula_for_attention(
    batch: int, heads: int, length: int, width: int
) -> None:
    q = torch.empty(batch, heads, length, width, device="meta")

    def attend() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    counted = place.count_flop(attend)
    assert counted == place.attention_flop(batch, heads, length, width, causal=False)
    assert counted == 4 * batch * heads * length**2 * width
    causal = place.attention_flop(batch, heads, length, width, causal=True)
    assert counted / 2 <= causal <= counted


def test_what_a_product_waits_for_follows_its_intensity_unless_it_is_only_a_launch() -> None:
    assert bound_by(1.0, 1.0, 10.0, 1e-6) == "memory"
    assert bound_by(1.0, 1.0, 10.0, 1e-6, cached=True) == "cache"
    assert bound_by(1.0, 100.0, 10.0, 1e-6) == "compute"
    assert bound_by(1.0, 100.0, 10.0, 1e-6, cached=True) == "compute"
    assert bound_by(1e-6, 100.0, 10.0, 1e-6) == "launch"


@pytest.mark.parametrize(("cache", "mib"), [(None, 64), (32 * MIB, 64), (126 * MIB, 256)])
def test_the_memorys_rate_is_that_of_a_copy_which_no_cache_holds(
    cache: int | None, mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "last_cache", lambda _device: cache)
    shapes = "workloads.catalog.first_steps.matmul_shapes.SHAPES"
    monkeypatch.setattr(shapes, (Shape("small", 8, 8, 8),))
    result = ok("matmul_shapes")
    assert result.figures["memory_rate"].about == f"of a copy of {mib} MiB, read and written"
    assert limits.cached(limits.MEMORY, 2 * mib * MIB, cache) is None


def test_a_product_that_reads_much_for_few_operations_is_held_against_the_memory() -> None:
    under = limit_lookup.conditions(torch.device("cpu"))
    ceilings = Ceilings()
    ceilings.learn(
        [Ceiling("float32", 100e9, "told", 1.0, under), Ceiling(COPY, 10e9, "told", 1.0, under)]
    )
    cache = environment.last_cache(torch.device("cpu")) or 0
    vector = Shape("", 4096, max(4096, cache // 1024), 1)
    square = Shape("", vector.k, vector.k, vector.k)
    case = Case(lambda: None, flop=1, byte=vector.byte, precision="float32", byte_limit="memory")
    for shape, name in ((vector, "memory bandwidth"), (square, "float32")):
        rates = Rates(float(shape.flop), float(shape.byte), None)
        asked = limit_lookup.queries(case, rates, torch.device("cpu"))
        assert not isinstance(asked, str)
        nearest = limit_lookup.nearest(asked, torch.device("cpu"), ceilings)
        assert nearest is not None
        assert nearest.name == name
    # Without the first, the others do not tell how far the units are from their limit.
    assert not isinstance(asked, str)
    assert limit_lookup.nearest(asked, torch.device("cpu"), Ceilings()) is None


def test_a_sweep_on_the_cpu_has_its_curve_and_its_knee() -> None:
    result = ok("matmul_sweep", largest=96, smallest=16)
    time = next(chart for chart in result.charts if chart.name == "time")
    assert time.places == tuple(map(float, estimates.doublings(16, 96)))
    assert [series.name for series in time.series] == ["CPU"]
    assert result.figures["knee"].value in time.places
    assert result.unavailable["figures.overtakes"] == "CPU-only run"
    bound = result.figures["launch_bound_up_to"].value
    assert bound in time.places or "not even n=16" in result.unavailable.values()


def test_a_sweep_beside_the_cpu_says_where_the_gpu_gets_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "_time_call", lambda _call: 0.3)
    # The launch; for each size the GPU, the GPU with copies, the CPU; the last CPU time ends its
    # curve.
    told = [1.2e-5, 2e-5, 9e-5, 1e-5, 2e-5, 9e-5, 4e-5, 2e-5, 9e-5, 8e-2, 3e-5, 2e-4]
    study = studied("matmul_sweep", GpuByName(), told, smallest=2, largest=16)
    marks = next(chart for chart in study.charts if chart.name == "time").marks
    assert marks == (
        "the CPU's curve ends before n=16: one product takes longer than 0.25 s",
        "the GPU overtakes the CPU between n=2 and n=4",
        "the GPU with copies overtakes the CPU between n=4 and n=8",
    )
    assert study.figures["overtakes"].value == 4.0
    assert study.figures["overtakes_with_copies"].value == 8.0
    rate = next(chart for chart in study.charts if chart.name == "rate")
    assert rate.series[2].values[-1] is None
    # Half of 3e-5 is more than the launch takes, half of 2e-5 is not.
    assert study.figures["launch_bound_up_to"].value == 8.0
    assert "bound by the launch up to n=8" in rate.marks
    assert [(each.name, each.rate) for each in study.checked_rates] == [
        ("n=2", 16 / 2e-5), ("n=4", 128 / 2e-5), ("n=8", 1024 / 2e-5), ("n=16", 8192 / 3e-5)
    ]  # fmt: skip


def test_a_disturbed_size_does_not_end_the_curve_of_the_cpu() -> None:
    # 80 ms for n=8; the call for n=16 takes microseconds.
    told = [1.2e-5, 2e-5, 9e-5, 1e-5, 2e-5, 9e-5, 4e-5, 2e-5, 9e-5, 8e-2, 3e-5, 2e-4, 5e-4]
    study = studied("matmul_sweep", GpuByName(), told, smallest=2, largest=16)
    times = next(chart for chart in study.charts if chart.name == "time")
    assert times.series[2].values == (1e-5, 4e-5, 8e-2, 5e-4)
    assert not any("curve ends" in mark for mark in times.marks)


def test_rounding_is_measured_and_the_setting_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    result = ok("tf32", n=64)
    assert torch.get_float32_matmul_precision() == before
    assert column(result, "precision", "setting") == ["full precision", "rounded"]
    errors = numbers(result, "precision", "error against float64")
    assert 0 < errors[0] <= 1e-5
    assert errors[1] >= errors[0] or "same bits" in result.unavailable["figures.error_growth"]


@pytest.mark.parametrize("mask", [FULL, CAUSAL, PADDING])
def test_attention_is_right_and_shows_the_kernels_that_run(mask: str) -> None:
    result = ok("attention", batch=1, heads=2, length=32, width=16, mask=mask)
    assert result.check is not None
    assert result.check.passed
    kernels = column(result, "kernels", "variant")
    assert "math" in kernels
    why_not = [line for line in result.log if "does not run here" in line]
    assert len(kernels) + len(why_not) == len(attention.BACKENDS) + len(("nested", "varlen"))
    assert "flex: a quick run does not compile it" in result.log
    assert result.figures["picked"].value in kernels
    assert column(result, "results", "variant") == kernels
    assert set(column(result, "results", "verdict")) == {"passed"}


@pytest.mark.parametrize("mask", [FULL, PADDING])
def test_nested_tensors_leave_hidden_keys_out_and_give_the_same_result(mask: str) -> None:
    result = ok("attention", batch=3, heads=2, length=32, width=16, mask=mask)
    assert "nested" in column(result, "kernels", "variant")
    assert max(numbers(result, "results", "largest difference")) < 1e-5


@pytest.mark.parametrize(
    ("parameters", "name", "words"),
    [
        ({"kv_heads": 1}, "nested", "batch dimensions must have the same sizes"),
        ({"mask": CAUSAL}, "nested", "not supported when is_causal=True"),
        ({}, "varlen", "with arguments from the 'CPU' backend."),
    ],
)
def test_functions_that_do_not_run_say_why_in_torchs_words(
    parameters: dict[str, Setting], name: str, words: str
) -> None:
    result = ok("attention", batch=1, heads=2, length=16, width=8, **parameters)
    (line,) = [line for line in result.log if line.startswith(f"{name}: does not run here: ")]
    assert words in line
    assert len(line) < 300


@pytest.mark.slow
@pytest.mark.parametrize("mask", [FULL, CAUSAL, PADDING])
def test_compiled_flex_attention_gives_the_same_result(mask: str) -> None:
    lacking = unmet(("a C++ compiler",), "cpu")
    if lacking is not None:
        pytest.skip(lacking)
    parameters: dict[str, Setting] = {"length": 64, "kv_heads": 2, "mask": mask}
    result = ran_under(Control(), "attention", parameters, budget="normal")
    assert (result.status, result.reason) == ("ok", None), result.trace
    assert "flex" in column(result, "results", "variant")
    assert set(column(result, "results", "verdict")) == {"passed"}


@pytest.mark.parametrize("mask", [FULL, CAUSAL, PADDING])
def test_packed_sequences_are_those_of_the_batch_without_hidden_keys(mask: str) -> None:
    shape = AttentionShape(2, 4, 2, 16, 8, mask, "float32")
    data = shape.data(place.Place("cpu"))
    packed = attention_functions.pack(shape, data)
    keys = 12 if mask == PADDING else 16
    assert packed.query_starts.tolist() == [0, 16, 32]
    assert packed.key_starts.tolist() == [0, keys, 2 * keys]
    assert torch.equal(packed.key[keys:, 1], data[1][1, 1, :keys])
    assert torch.equal(packed.last_head(packed.query), data[0][-1, -1])


@pytest.mark.parametrize("backend", ["math", "flash"])
@pytest.mark.parametrize("mask", with_variants([CAUSAL], [FULL, PADDING]))
@pytest.mark.parametrize("kv_heads", with_variants([2], [1, 4]))
def test_each_backend_of_the_cpu_gives_the_result_of_the_formula(
    backend: str, mask: str, kv_heads: int
) -> None:
    sizes: dict[str, Setting] = {"batch": 2, "heads": 4, "length": 16, "width": 8}
    result = ok("attention", backend=backend, mask=mask, kv_heads=kv_heads, **sizes)
    assert result.check is not None
    assert result.check.passed
    assert result.time is not None
    assert result.rates.flop_per_s is not None
    # Pairs of positions: all, those on and below the diagonal, those with 12 visible keys.
    pairs = {FULL: 16 * 16, CAUSAL: 16 * 17 // 2, PADDING: 16 * 12}[mask]
    flop = result.rates.flop_per_s * result.time.median_s
    assert flop == pytest.approx(2 * 2 * (2 * 4 * pairs * 8))


def test_a_backend_that_cannot_run_is_skipped_in_torchs_words() -> None:
    result = ran("attention", backend="cudnn", length=16)
    assert result.status == "skipped"
    assert "No viable backend" in (result.reason or "")


def test_kv_heads_divide_the_heads() -> None:
    result = ran("attention", heads=4, kv_heads=3)
    assert result.status == "failed"
    assert "a divisor of heads=4" in (result.reason or "")


def test_only_the_words_about_the_allowed_backend_are_a_reason() -> None:
    place = " (Triggered internally at /aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:1106.)"
    messages = [
        "Memory efficient kernel not used because:" + place,
        "Memory Efficient attention has been runtime disabled." + place,
        "Flash attention kernel not used because:" + place,
        "Flash Attention does not support non-null attn_mask." + place,
    ]
    assert explain_refusal(messages) == "Flash Attention does not support non-null attn_mask."
    assert explain_refusal(messages[:3]) == ""


@pytest.mark.parametrize(
    ("room", "length", "tables"),
    [
        (2**30, 32, ["kernels", "results", "caches", "long_kernels"]),
        (2**30, 64, ["kernels", "results", "caches"]),
        (150_000, 32, ["kernels", "results"]),
    ],
)
def test_on_a_gpu_short_attention_is_timed_by_kernel_at_a_greater_length_too(
    room: int, length: int, tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "LONG_SEQUENCE", 64)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (7, 5))
    monkeypatch.setattr(attention, "compiler", nullcontext)
    monkeypatch.setattr(torch, "compile", lambda function, **_options: function)
    found = studied("attention", GpuByName(room), batch=1, heads=2, length=length, width=16)
    assert [table.name for table in found.tables] == tables
    assert any("not at 64 positions" in line for line in found.log) is (room < 2**30)


def test_a_chains_kernels_are_counted_where_the_profiler_sees_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", lambda chain: chain)

    def launched(call: Callable[[], object], _on: Place) -> list[ProfilerRow]:
        call()
        return [ProfilerRow("mul", 1, 1e-6, 1e-6, 0), ProfilerRow("elementwise", 3, 1e-6, 1e-6, 0)]

    def counted(rows: Callable[[Callable[[], object], Place], list[ProfilerRow]]) -> Study:
        monkeypatch.setattr(compiled, "kernels_of", rows)
        return studied("elementwise", GpuByName(), mib=1)

    assert counted(launched).figures["kernels_eager"].value == 4.0
    blind = counted(lambda _call, _on: [])
    assert blind.figures["kernels_eager"].value is None
    assert "CUPTI" in blind.unavailable["figures.kernels_eager"]


@pytest.mark.parametrize(
    ("dtype", "each"), [("float32", 4), pytest.param("bfloat16", 2, marks=VARIANT), ("float16", 2)]
)
def test_reductions_move_the_bytes_of_their_type(dtype: str, each: int) -> None:
    result = ok("reductions", rows=64, columns=32, dtype=dtype)
    assert result.time is not None
    assert result.rates.byte_per_s is not None
    assert result.rates.byte_per_s * result.time.median_s == pytest.approx(2 * each * 64 * 32)
    assert f"64 x 32, {dtype}" in table(result, "operations").title


def test_reductions_are_held_against_a_copy() -> None:
    result = ok("reductions", rows=64, columns=32)
    assert column(result, "operations", "operation")[0] == "copy"
    assert numbers(result, "operations", "of the copy's rate")[0] == pytest.approx(100)


def test_a_compiler_that_fails_skips_the_chain_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_chain: object) -> object:
        def call(_x: object) -> object:
            raise RuntimeError("no working C++ compiler found\nand a long story")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr("workloads.runner.execute.unmet", lambda *_: None)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    result = ran("elementwise", mib=1)
    assert result.status == "skipped"
    assert result.reason == "torch.compile fails here: no working C++ compiler found"
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ


def test_the_chain_is_compiled_in_this_process_and_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Imports the compiler, which takes as long as torch itself: not while tests are collected.
    import torch._inductor.config as inductor

    seen: list[tuple[int | None, str]] = []

    def noted(chain: Callable[[torch.Tensor], torch.Tensor]) -> object:
        seen.append((inductor.compile_threads, os.environ["TORCHINDUCTOR_CACHE_DIR"]))
        return chain

    monkeypatch.setattr(torch, "compile", noted)
    monkeypatch.setattr("workloads.runner.execute.unmet", lambda *_: None)
    threads = inductor.compile_threads
    ok("elementwise", mib=1)
    ((during, folder),) = seen
    assert during == 1
    assert inductor.compile_threads == threads
    assert not Path(folder).exists()


@pytest.mark.slow
def test_a_chain_is_really_compiled_where_there_is_a_compiler() -> None:
    lacking = unmet(("a C++ compiler",), "cpu")
    if lacking is not None:
        pytest.skip(lacking)
    before = set(psutil.Process().children(recursive=True))
    result = ok("elementwise", mib=1)
    assert result.time is not None
    compiled = result.figures["compile"].value
    assert isinstance(compiled, float)
    # Writing and compiling a kernel takes longer than running it.
    assert compiled > result.time.median_s
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_compiled_chain_is_compared_with_the_eager_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda chain: chain)
    monkeypatch.setattr("workloads.runner.execute.unmet", lambda *_: None)
    result = ok("elementwise", mib=1)
    assert column(result, "ways", "variant") == ["eager", "compiled"]
    assert isinstance(result.figures["compile"].value, float)
    assert "break_even_calls" in result.figures
    assert "no kernels" in result.unavailable["figures.kernels_compiled"]
    assert result.figures["expected_speed_up"].value == compiled.EAGER_PASSES / 2
