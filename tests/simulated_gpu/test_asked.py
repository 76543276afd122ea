"""What a workload asks of a GPU before it allocates covers what it takes, and is not far above."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from tests.catalog.runs import ran
from workloads.catalog.health.burn import GPU_ROWS
from workloads.catalog.health.burner import STRIP
from workloads.catalog.training import memory as training_memory
from workloads.declare.place import PARTIAL_SUMS, Place, pinned_bytes
from workloads.declare.workload import registered
from workloads.limits import limit_lookup
from workloads.measure import memory
from workloads.protocol.results import RunResult, Setting

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]

GPU = "cuda:0"
DEVICE = torch.device(GPU)
MIB = 2**20
NOT_MUCH_MORE = 2.5
"""What is asked over what is taken: above it, what would fit is refused."""
SMALL = PARTIAL_SUMS + 64 * 1024
"""Bytes asked for beside the tensors that are counted one by one."""
CUDNN = 256 * MIB
"""cuDNN's workspace: it takes one where there is room, and does without where there is none."""
LACKING = ("not simulated", "No execution plans support the graph")
"""What torch says where the simulated cuDNN has no such operation."""

Parameters = dict[str, Setting]

BY_TENSORS: list[tuple[str, Parameters]] = [
    ("transfer", {"mib": 32}),
    ("transfer", {"mib": 33}),
    ("transfer", {"mib": 33, "memory": "pageable"}),
    ("placement", {}),
    ("placement", {"width": 2048, "batch": 2048}),
    ("copies_in_loop", {"mib": 64}),
    ("copy_sizes", {"largest_mib": 3}),
    ("copy_sizes", {"largest_mib": 32}),
    ("load_weights", {"mib": 64}),
    ("load_weights", {"mib": 33, "cache": "cold"}),
    ("device_copy", {"mib": 64}),
    ("device_copy", {"mib": 64, "dtype": "bfloat16"}),
    ("device_copy", {"mib": 64, "cache": "cold"}),
    ("overlap", {"chunk_mib": 4}),
    ("matmul", {"n": 1000}),
    ("matmul", {"n": 3000, "dtype": "bfloat16"}),
    ("matmul", {"n": 1000, "cache": "cold"}),
    ("matmul_shapes", {}),
    ("matmul_sweep", {"largest": 300, "smallest": 7}),
    ("matmul_sweep", {"largest": 1024}),
    ("decode_gemm", {"n": 4096}),
    ("decode_gemm", {"n": 4096, "cache": "cold"}),
    ("decode_gemm", {"n": 4096, "m": 64, "dtype": "float32"}),
    ("tf32", {}),
    ("matmul_float8", {}),
    ("attention", {}),
    ("attention", {"length": 2048, "mask": "causal", "dtype": "bfloat16"}),
    ("attention", {"length": 4096, "heads": 1, "batch": 1}),
    ("attention", {"mask": "padding", "kv_heads": 2, "length": 4096}),
    ("attention", {"length": 2048, "cache": "cold", "backend": "math"}),
    ("reductions", {"rows": 4096}),
    ("reductions", {"rows": 4096, "cache": "cold"}),
    ("linalg", {}),
    ("mlp_training", {}),
    ("mlp_training", {"hidden": 4096, "batch": 1024, "epochs": 1}),
    ("mlp_evaluation", {}),
    ("mlp_evaluation", {"hidden": 4096, "batch": 1024}),
    ("checkpointing", {}),
    ("checkpointing", {"segments": 2, "layers": 4, "width": 256, "batch": 512}),
    ("checkpointing", {"segments": 8, "layers": 32, "width": 32}),
    ("activation_memory", {}),
    ("activation_memory", {"layers": 8, "width": 256, "way": "save_on_cpu"}),
    ("optimizer_step", {"width": 512}),
    ("optimizer_step", {"width": 512, "optimizer": "sgd", "way": "for-loop"}),
    ("llm_prefill", {"width": 512, "length": 2048, "layers": 2}),
    ("llm_prefill", {"width": 512, "length": 512, "dtype": "float32", "kv_heads": 32}),
    ("llm_decode", {"width": 1024, "largest": 8, "dtype": "float32", "kv_heads": 32}),
    ("llm_decode", {"width": 512, "batch": 4, "dtype": "float32", "largest": 1}),
    ("inference_modes", {}),
    ("inference_modes", {"batch": 4096, "width": 256, "depth": 4}),
    ("staircase", {"mib": 64}),
    ("fragmentation", {"pieces": 4}),
    ("out_of_memory", {"mib": 16}),
    ("naive_timing", {"n": 1000}),
    ("comparing_results", {"n": 500}),
    ("device_mismatch", {}),
    ("device_mismatch", {"batch": 4096, "width": 64}),
    ("model_on_cpu", {}),
    ("model_on_cpu", {"batch": 4096, "width": 256}),
    ("item_in_loop", {"steps": 3}),
    ("item_in_loop", {"steps": 3, "width": 1024, "batch": 1024}),
    ("python_loop", {"n": 100}),
    ("tiny_model", {}),
    ("tiny_model", {"width": 2048}),
    ("cuda_graphs", {}),
    ("burn", {"seconds": 1}),
    ("burn", {"seconds": 1, "n": 1000, "dtype": "float64"}),
    ("burn", {"seconds": 1, "n": 2000, "verify": "on"}),
]
WITH_CUDNN: list[tuple[str, Parameters]] = [
    ("conv2d", {"batch": 32}),
    ("conv2d", {"batch": 32, "mode": "forward+backward"}),
    ("conv2d", {"batch": 16, "channels_in": 64, "groups": 64}),
    ("resnet50_layers", {}),
    ("conv_layouts", {}),
    ("conv_block", {}),
    ("varying_shapes", {"batch": 16, "channels": 128}),
    ("deterministic", {}),
    ("cnn_training", {"width": 64, "batch": 128}),
    ("amp", {"width": 64, "batch": 128}),
    ("gradient_accumulation", {"width": 64, "batch": 128}),
    ("batch_scaling", {"width": 64, "largest": 512}),
    ("data_loading", {"width": 64, "samples": 64, "cost_us": 0, "memory": "pinned"}),
    ("profiler", {"width": 64, "batch": 128}),
]
BY_WHAT_IS_FREE = {
    "ceiling": "its products grow with what is free",
    "batch_until_oom": "it fills a share of the device, and sets the allocator that limit",
    "device_list": "it makes no tensor",
}
ELSEWHERE = {
    "elementwise": "needs Triton",
    "transformer_compile": "needs Triton",
    "peer_copies": "needs 2 GPUs",
    "data_parallel": "needs 2 GPUs",
    "all_reduce": "its ranks are processes of their own",
    "collectives": "its ranks are processes of their own",
    "ddp_training": "its ranks are processes of their own",
    "fsdp_training": "its ranks are processes of their own",
}


def test_every_workload_is_held_to_what_it_asks_or_named_with_the_reason() -> None:
    held = {name for name, _ in BY_TENSORS + WITH_CUDNN}
    assert held | set(BY_WHAT_IS_FREE) | set(ELSEWHERE) == set(registered())


class Asked:
    """What one run asked of the GPU and of the host, and what it took of the GPU; bytes.

    As the tensors were requested: what the allocator rounds up is not the workload's.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._before = 0
        self.room = 0
        """With what was held when it was asked for."""
        self.host = 0

    def of(self, workload: str, parameters: Parameters) -> int:
        """Run the workload; its peak."""
        self._ran(workload, parameters)  # the libraries take their workspaces
        memory.give_back(DEVICE)
        self._before = self._requested("current")
        torch.cuda.reset_peak_memory_stats()
        genuine = Place.require

        def noted(place: Place, size: int, what: str, *, host: int = 0) -> None:
            held = self._requested("current") - self._before
            if place.device == DEVICE:
                self.room = max(self.room, held + size)
                self.host = max(self.host, host)
            genuine(place, size, what, host=host)

        with self._monkeypatch.context() as patched:
            patched.setattr(Place, "require", noted)
            patched.setattr(torch.cuda, "reset_peak_memory_stats", lambda *_: None)
            self._ran(workload, parameters)
        return self._requested("peak") - self._before

    @staticmethod
    def _requested(which: str) -> int:
        return int(torch.cuda.memory_stats()[f"requested_bytes.all.{which}"])

    @staticmethod
    def _ran(workload: str, parameters: Parameters) -> RunResult:
        result = ran(workload, GPU, **parameters)
        if any(words in (result.reason or "") for words in LACKING):
            pytest.skip(f"the simulated GPU lacks what it needs: {result.reason}")
        # Simulated kernels compute nothing, so the check of a result may fail; it was timed.
        assert result.time is not None, (result.status, result.reason, result.trace)
        return result


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    torch.cuda.init()
    yield Asked(monkeypatch)
    memory.give_back(DEVICE)


def _named(cases: list[tuple[str, Parameters]]) -> list[str]:
    return [
        " ".join([name, *(f"{key}={value}" for key, value in of.items())]) for name, of in cases
    ]


@pytest.mark.parametrize(("workload", "parameters"), BY_TENSORS, ids=_named(BY_TENSORS))
def test_no_more_is_taken_than_was_asked_and_not_much_less(
    workload: str, parameters: Parameters, asked: Asked
) -> None:
    taken = asked.of(workload, parameters)
    assert 0 < taken <= asked.room
    assert asked.room <= NOT_MUCH_MORE * taken + SMALL


@pytest.mark.parametrize(("workload", "parameters"), WITH_CUDNN, ids=_named(WITH_CUDNN))
def test_no_more_is_taken_than_was_asked_but_for_the_workspace_of_cudnn(
    workload: str, parameters: Parameters, asked: Asked
) -> None:
    taken = asked.of(workload, parameters)
    assert 0 < taken <= asked.room + CUDNN
    assert asked.room <= NOT_MUCH_MORE * taken + SMALL


def test_ceilings_take_their_share_of_what_is_free(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_lookup, "THOROUGH_S", 0.01)
    free = Place(GPU).free_memory()
    assert free is not None
    taken = asked.of("ceiling", {})
    # All sizes are there at once: four thirds of the largest, a fourth part of it on each.
    assert taken <= asked.room + free / limit_lookup.SHARE_OF_FREE * 4 / 3


def test_batches_until_memory_ends_stay_within_their_share_of_the_device(asked: Asked) -> None:
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    assert asked.of("batch_until_oom", {"batch": 4096, "percent": 10}) <= 0.1 * total


def test_a_list_of_devices_makes_no_tensor(asked: Asked) -> None:
    # The product that starts the libraries is the runner's, not the workload's.
    assert asked.of("device_list", {}) <= PARTIAL_SUMS
    assert asked.room == 0


@pytest.mark.parametrize("mib", [1, 16, 33, 100])
def test_copies_ask_the_host_for_what_they_pin(mib: int, asked: Asked) -> None:
    asked.of("transfer", {"mib": mib})
    assert asked.host == 2 * pinned_bytes(mib * MIB)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 3 * MIB, 33 * MIB])
def test_torch_pins_what_pinned_memory_is_reckoned_at(size: int) -> None:
    memory.give_back(DEVICE)
    before = memory.pinned()
    assert before is not None
    kept = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    after = memory.pinned()
    assert after is not None
    assert after - before == pinned_bytes(size)
    del kept


def test_a_burn_compares_in_strips_and_takes_little_beside_its_matrices(asked: Asked) -> None:
    matrix = 2 * GPU_ROWS**2
    taken = asked.of("burn", {"seconds": 1})
    assert taken <= 4 * matrix + 9 * STRIP * GPU_ROWS + PARTIAL_SUMS


def test_long_kernels_that_do_not_fit_are_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = Place.free_memory

    def little(place: Place) -> int | None:
        free = genuine(place)
        return None if free is None else min(free, 256 * MIB)

    monkeypatch.setattr(Place, "free_memory", little)
    result = ran("attention", GPU)
    assert result.time is not None
    assert [table.name for table in result.tables] == ["kernels", "results", "caches"]
    (line,) = [line for line in result.log if line.startswith("not at 4096 positions")]
    assert "are free on cuda:0" in line


def test_a_batch_that_does_not_fit_ends_the_scaling_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Place, "free_memory", lambda _place: 64 * MIB)
    # A busy machine ends it sooner.
    monkeypatch.setattr(training_memory, "LONGEST_STEP_S", math.inf)
    result = ran("batch_scaling", GPU)
    assert result.status == "ok", result.reason
    assert any(line.startswith("ended: a batch of ") for line in result.log)
