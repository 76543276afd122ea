"""Attention, by each of the kernels that torch has for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study, Within
from workloads.declare.workload import Case, Skip, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

LONG = 4096
"""Positions at which a GPU's kernels take long enough to be told apart from their launch."""
FULL, CAUSAL = "full", "causal"
KERNELS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "memory-efficient": "EFFICIENT_ATTENTION",
    "cuDNN": "CUDNN_ATTENTION",
}


@workload(
    group="compute",
    title="scaled dot-product attention",
    about="softmax(Q K^T / sqrt(D)) V for a batch of heads, as in a transformer, by the kernel "
    "that torch chooses; then by each kernel in turn. A causal mask lets each position see those "
    "before it: half of the work.",
    look_for="Time and peak memory by kernel: the math kernel writes the S x S matrix of scores to "
    "memory, the fused kernels (flash, memory-efficient, cuDNN) keep it on the chip. Twice the "
    "length is four times the work. A kernel that does not run here says why in the log; flash "
    "needs float16 or bfloat16 on a GPU.",
)
def attention(
    on: Place,
    batch: Annotated[int, whole(1, 1024, "sequences")] = 2,
    heads: Annotated[int, whole(1, 256, "heads")] = 8,
    length: Annotated[int, whole(2, 65_536, "positions in a sequence, S")] = 512,
    width: Annotated[int, whole(8, 256, "width of a head, D")] = 64,
    mask: Annotated[str, one_of((FULL, CAUSAL), "what a position sees")] = FULL,
    dtype: Annotated[str, one_of(("float32", "bfloat16", "float16"), "of the numbers")] = "float32",
) -> Case:
    import torch

    from workloads.declare import flop
    from workloads.declare.checks import TOLERANCES, against_float64
    from workloads.declare.place import DTYPES, attention_precision

    room, host = _room(batch * heads, length, width, DTYPES[dtype].itemsize)
    what = "queries, keys, values and the math kernel's scores"
    on.require(max(room, host) if on.type == "cpu" else room, what, host=host)
    q, k, v = (on.randn(batch, heads, length, width, dtype=dtype) for _ in range(3))
    causal = mask == CAUSAL
    operations = flop.attention(batch, heads, length, width, causal=causal)

    def timed() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    used = attention_precision(on, dtype, torch.backends.cuda.matmul.allow_tf32)

    def check() -> Check:
        one = [tensor[0, 0].cpu().double() for tensor in (q, k, v)]
        weights = one[0] @ one[1].T / width**0.5
        if causal:
            weights = weights.masked_fill(torch.ones_like(weights).triu(1).bool(), -torch.inf)
        what = "one head by the formula, in float64 on the CPU"
        reference = weights.softmax(-1) @ one[2]
        return against_float64(timed()[0, 0], reference, TOLERANCES[used], what)

    def study(found: Study) -> None:
        title = f"by kernel, {length} positions"
        _kernels(found, "kernels", title, timed, operations)
        if on.type != "cpu" and length < LONG:
            long_kernels(found)

    def long_kernels(found: Study) -> None:
        """By kernel where the launch is a small part of it, if there is room."""
        room, _ = _room(batch * heads, LONG, width, DTYPES[dtype].itemsize)
        try:
            on.require(room, what)
        except Skip as skip:
            found.say(f"not at {LONG} positions: {skip}")
            return
        query, key, value = (on.randn(batch, heads, LONG, width, dtype=dtype) for _ in range(3))
        needed = flop.attention(batch, heads, LONG, width, causal=causal)

        def attend() -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=causal
            )

        _kernels(found, "long_kernels", f"by kernel, {LONG} positions", attend, needed)

    return Case(timed, flop=operations, precision=used, check=check, study=study)


def _room(heads: int, length: int, width: int, each: int) -> tuple[int, int]:
    """Bytes that the math kernel needs, and those that the check needs on the host.

    The math kernel computes 16-bit numbers in float32 (ATen: ``attention.cpp``). The scores are
    there before and after the softmax and once more without the rows that see nothing, of which it
    keeps a flag for each score; the causal mask is one matrix for all heads.

    Args:
        heads: in all sequences together.
        length: positions in a sequence.
        width: of a head.
        each: bytes of a stored number.
    """
    tokens = heads * length * width
    # Queries, keys, values and the result as they are stored; three of them in float32, two scaled.
    room = tokens * (4 * each + (3 + 2 + 1) * 4) + heads * length**2 * (3 * 4 + 1) + 5 * length**2
    # In float64: a head's queries, keys, values and result; its scores, weights, and a mask.
    check = 3 * tokens * each + 8 * (6 * length * width + 4 * length**2)
    return room, check


def _kernels(
    found: Study, table: str, title: str, attend: Callable[[], torch.Tensor], flop: int
) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    calls: dict[str, Callable[[], object]] = {}
    for name, backend in KERNELS.items():
        call = Within(partial(sdpa_kernel, getattr(SDPBackend, backend)), attend)
        try:
            call()
        except RuntimeError as error:
            found.say(f"{name}: does not run here: {str(error).splitlines()[0]}")
        else:
            calls[name] = call
    found.variants(table, title, calls, per_call=(float(flop), "FLOP/s"), peaks=True, held=True)
