"""Products, attention, chains and reductions on a GPU."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from tests.catalog.runs import column, numbers, ran
from tests.gpu.test_transfer import GPU, on_gpu
from workloads.declare.place import Place
from workloads.protocol.results import Setting

pytestmark = [pytest.mark.timeout(300)]


@pytest.mark.simulated_gpu
def test_the_facts_of_a_result_name_the_gpu() -> None:
    assert GPU in column(on_gpu("matmul_shapes"), "facts", "of plain factors")


@pytest.mark.simulated_gpu
def test_a_sweep_lays_the_cpu_beside_the_gpu() -> None:
    result = on_gpu("matmul_sweep", largest=1024)
    time = next(chart for chart in result.charts if chart.name == "time")
    assert [series.name for series in time.series] == ["GPU", "GPU with copies", "CPU"]
    alone, with_copies, _ = (series.values[-1] for series in time.series)
    assert alone is not None
    assert with_copies is not None
    assert alone < with_copies
    assert len(time.marks) == 2


@pytest.mark.gpu
def test_tf32_is_faster_and_coarser_where_the_gpu_has_it() -> None:
    if torch.cuda.get_device_capability()[0] < 8:
        pytest.skip("TF32 needs compute capability 8.0")
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    result = on_gpu("tf32", n=4096)
    assert before == (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    exact, rounded, conv_exact, conv_rounded = numbers(result, "precision", "error against float64")
    assert exact < rounded < 5e-3
    assert conv_exact < conv_rounded < 5e-3
    assert numbers(result, "precision", "speed-up")[1] > 0.9


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_attention_is_right_by_the_kernel_that_torch_chooses(dtype: str, mask: str) -> None:
    result = on_gpu("attention", dtype=dtype, mask=mask)
    assert result.check is not None
    assert result.check.passed
    assert result.limit is None or not result.limit.exceeded
    kernels = column(result, "kernels", "variant")
    assert "math" in kernels
    assert all(isinstance(peak, int) for peak in column(result, "kernels", "peak memory"))


@pytest.mark.simulated_gpu
def test_torch_says_why_a_backend_cannot_run() -> None:
    result = ran("attention", GPU, mask="padding", kv_heads=2)
    log = "\n".join(result.log)
    assert "flash: does not run here: Flash Attention does not support non-null attn_mask" in log
    assert "to have the same num_heads" in log
    assert "runtime disabled" not in log
    assert column(result, "kernels", "variant") == ["math"]
    assert result.figures["picked"].value == "math"


@pytest.mark.simulated_gpu
def test_torch_picks_the_efficient_kernel_for_float32() -> None:
    result = ran("attention", GPU)
    assert result.figures["picked"].value == "efficient"
    assert column(result, "kernels", "variant")[:2] == ["math", "efficient"]


@pytest.mark.gpu
def test_a_compiled_chain_is_faster_than_the_eager_one() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the module triton is not installed beside this torch")
    result = ran("elementwise", GPU, mib=512)
    assert result.status == "ok", result.reason
    assert numbers(result, "ways", "speed-up")[1] > 1.5
    eager, compiled = (result.figures[f"kernels_{way}"] for way in ("eager", "compiled"))
    if eager.value is None:
        assert "CUPTI" in result.unavailable["figures.kernels_eager"]
    else:
        assert (eager.value, compiled.value) == (4.0, 1.0)


@pytest.mark.simulated_gpu
@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("matmul_sweep", {"largest": 2048}),
        ("tf32", {"n": 2048}),
        ("attention", {"length": 1024, "mask": "causal", "dtype": "float32"}),
    ],
)
def test_no_more_of_the_gpu_is_held_than_was_asked_for(
    workload: str, parameters: dict[str, Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    genuine = Place.require

    def noted(place: Place, size: int, what: str, *, host: int = 0) -> None:
        asked.append(size)
        genuine(place, size, what, host=host)

    monkeypatch.setattr(Place, "require", noted)
    ran(workload, GPU, **parameters)  # cuBLAS takes its workspace
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda *_: None)
    assert ran(workload, GPU, **parameters).time is not None
    assert torch.cuda.max_memory_allocated() - before <= asked[-1]


@pytest.mark.gpu
def test_reductions_run_and_stay_below_the_bandwidth() -> None:
    result = on_gpu("reductions", rows=131_072)
    assert result.limit is None or result.limit.fraction <= 1.03


@pytest.mark.gpu
def test_equations_are_solved_by_the_gpu() -> None:
    result = on_gpu("linalg", n=2048)
    assert result.check is not None
    assert result.check.passed
    assert result.figures["eigenvalues_over_trace"].value == pytest.approx(1, abs=1e-3)
    operations = column(result, "operations", "operation")
    assert operations[:4] == ["product", "solve", "Cholesky", "symmetric eigenvalues"]
    assert len(operations) + len(result.log) == 5


@pytest.mark.gpu
def test_an_8_bit_product_is_right_where_the_gpu_has_it() -> None:
    result = ran("matmul_float8", GPU, n=4096)
    if torch.cuda.get_device_capability() < (8, 9):
        assert result.status == "skipped"
        assert "needs compute capability 8.9" in (result.reason or "")
        return
    assert result.status == "ok", result.reason
    assert result.check is not None
    assert result.check.passed
    assert result.limit is None or not result.limit.exceeded
    assert numbers(result, "types", "speed-up")[1] > 1.0
