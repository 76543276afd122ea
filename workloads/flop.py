"""Count floating-point operations with torch's own counter, on the meta device: no work is done."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def count(call: Callable[[], object]) -> int:
    """FLOP of one call whose tensors are on the meta device; pointwise operations count nothing."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
