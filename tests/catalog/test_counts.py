"""Operations and bytes of the workloads against hand counts, and against torch's own counter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.catalog.stand_ins import case_of
from workloads import catalog
from workloads.declare.place import Place
from workloads.declare.workload import Case
from workloads.protocol.results import Setting

assert catalog
MIB = 2**20
Parameters = dict[str, Setting]

# A decoder of 2 blocks of width 32 with 4 heads and 2 KV heads: queries and output (32 x 32 each),
# keys and values (32 x 16 each), and the perceptron's gate, up and down (32 x 112 each).
DECODER: Parameters = {
    "width": 32, "heads": 4, "kv_heads": 2, "layers": 2, "dtype": "float32"
}  # fmt: skip
MATRICES = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 112)
NORMS = 2 * 2 * 32
KV = 2 * 2 * 2 * 8 * 4
"""Bytes of a token's keys and values: 2 blocks, 2 heads of width 8, float32."""

# A transformer block of width 16: query-key-value, output, and both of the perceptron.
BLOCK = 3 * 16 * 16 + 16 * 16 + 2 * 16 * 64
OF_PAIR = 4 * 16
"""FLOP of attention for a pair of positions in a block of width 16: two products."""
BELOW, ALL = 8 * 9 // 2, 8 * 8
"""Pairs of 8 positions that a causal mask leaves, and those that torch's counter counts."""

FLOP: list[tuple[str, Parameters, int, int]] = [
    # The workload, its parameters, its FLOP by hand, and what torch counts beyond them.
    ("attention", {"batch": 2, "heads": 4, "length": 16, "width": 8, "backend": "math"},
     2 * 2 * (2 * 4 * 16 * 16 * 8), 0),
    ("attention", {"batch": 2, "heads": 4, "length": 16, "width": 8, "backend": "math",
                   "kv_heads": 2}, 2 * 2 * (2 * 4 * 16 * 16 * 8), 0),
    ("attention", {"batch": 2, "heads": 4, "length": 16, "width": 8, "backend": "math",
                   "mask": "causal"},
     2 * 2 * (2 * 4 * (16 * 17 // 2) * 8), 2 * 2 * (2 * 4 * (16 * 15 // 2) * 8)),
    ("attention", {"batch": 2, "heads": 4, "length": 16, "width": 8, "backend": "math",
                   "mask": "padding"},
     2 * 2 * (2 * 4 * 16 * 12 * 8), 2 * 2 * (2 * 4 * 16 * 4 * 8)),
    ("decode_gemm", {"m": 3, "n": 64, "dtype": "float32"}, 2 * 3 * 64 * 64, 0),
    ("llm_prefill", {**DECODER, "batch": 3, "length": 8},
     2 * 3 * 8 * MATRICES + 2 * 3 * 4 * BELOW * (4 * 8), 2 * 3 * 4 * (ALL - BELOW) * (4 * 8)),
    ("llm_decode", {**DECODER, "batch": 3, "context": 8, "largest": 1},
     2 * 3 * MATRICES + 2 * 3 * 4 * 8 * (4 * 8), 0),
    ("activation_memory", {"layers": 2, "width": 16, "heads": 2, "batch": 3, "length": 8},
     3 * 2 * 3 * (2 * 8 * BLOCK + BELOW * OF_PAIR), 3 * 2 * 3 * (ALL - BELOW) * OF_PAIR),
]  # fmt: skip

BYTES: list[tuple[str, Parameters, int]] = [
    # Both factors and the product.
    ("decode_gemm", {"m": 3, "n": 64, "dtype": "float32"}, 4 * (64 * 64 + 2 * 3 * 64)),
    ("decode_gemm", {"m": 3, "n": 64, "dtype": "bfloat16"}, 2 * (64 * 64 + 2 * 3 * 64)),
    # All weights, 8 tokens that are read and one that is written, for each sequence.
    ("llm_decode", {**DECODER, "batch": 3, "context": 8, "largest": 1},
     4 * (MATRICES + NORMS) + 3 * 9 * KV),
    # AdamW reads parameter, gradient and two moments and writes all but the gradient.
    ("optimizer_step", {"layers": 3, "width": 32}, 7 * 4 * 3 * (32 * 32 + 32)),
    ("optimizer_step", {"layers": 3, "width": 32, "optimizer": "sgd"}, 5 * 4 * 3 * (32 * 32 + 32)),
]  # fmt: skip


@contextmanager
def _prepared(name: str, parameters: Parameters) -> Iterator[Case]:
    case = case_of(name, Place("cpu"), parameters)
    try:
        yield case
    finally:
        if case.cleanup is not None:
            case.cleanup()


def _counted(call: Callable[[], object]) -> int:
    """Return what torch counts; the fused kernels of the CPU are not among its operators."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        call()
    return int(counter.get_total_flops())


@pytest.mark.parametrize(("name", "parameters", "flop", "masked"), FLOP)
def test_operations_are_those_by_hand_and_those_that_torch_counts_but_for_masked_ones(
    name: str, parameters: Parameters, flop: int, masked: int
) -> None:
    with _prepared(name, parameters) as case:
        assert case.flop == flop
        assert _counted(case.timed) == flop + masked


@pytest.mark.parametrize("way", ["checkpoint", "selective"])
def test_recomputed_operations_do_not_count_as_work(way: str) -> None:
    sizes: Parameters = {"layers": 2, "width": 16, "heads": 2, "batch": 3, "length": 8}
    with _prepared("activation_memory", sizes) as plain:
        once = _counted(plain.timed)
    with _prepared("activation_memory", {**sizes, "way": way}) as case:
        again = _counted(case.timed)
        assert case.flop == plain.flop
    forward = once // 3
    # Recomputing a block stops before its last product, whose result nothing stored depends on.
    last = 2 * 2 * 3 * 8 * (64 * 16)
    if way == "checkpoint":
        assert again == once + forward - last
    else:
        # By the math kernel, attention is made of products that the policy stores too.
        assert once <= again < once + forward - last


@pytest.mark.parametrize(("name", "parameters", "size"), BYTES)
def test_bytes_are_those_by_hand(name: str, parameters: Parameters, size: int) -> None:
    with _prepared(name, parameters) as case:
        assert case.byte == size


def test_on_the_cpu_loaded_weights_are_read_and_written_twice() -> None:
    with _prepared("load_weights", {"mib": 1}) as case:
        # From the page cache to the buffer, and from there to the tensors.
        assert case.byte == 4 * MIB


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", f"file://{tmp_path}/ranks", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_a_step_of_sharded_training_counts_its_products() -> None:
    with _prepared("fsdp_training", {"batch": 4, "width": 16}) as case:
        # Forward, the gradients of the weights, and those of the inputs but the first layer's.
        by_hand = 2 * 4 * ((3 + 3 + 2) * 16 * 16 + 3 * 16)
        assert case.flop == by_hand
        assert _counted(case.timed) == by_hand


@pytest.mark.usefixtures("one_rank")
def test_one_rank_moves_nothing() -> None:
    with _prepared("collectives", {"mib": 1}) as case:
        assert case.byte is None
        assert case.check is not None
        assert case.check().passed
