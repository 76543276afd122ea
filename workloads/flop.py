"""Count floating-point operations: by torch's counter, on the meta device, or by hand."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def count(call: Callable[[], object]) -> int:
    """FLOP of one call whose tensors are on the meta device; pointwise operations count nothing."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def attention(batch: int, heads: int, length: int, width: int, *, causal: bool) -> int:
    """FLOP of both products: 4 B H S² D; a causal mask needs only the S (S + 1) / 2 pairs.

    torch counts all pairs, mask or not.

    Args:
        batch: sequences, B.
        heads: of each, H.
        length: positions, S.
        width: of a head, D.
        causal: each position sees those before it alone.
    """
    pairs = length * (length + 1) // 2 if causal else length**2
    return 4 * batch * heads * pairs * width
