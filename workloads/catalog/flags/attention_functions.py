"""Attention beside ``scaled_dot_product_attention``: nested tensors, packed sequences, flex.

Nested tensors and ``torch.nn.attention.varlen`` have sequences of any lengths one after the other,
so that hidden positions at the end of a sequence need no mask and no work. ``flex_attention`` takes
any mask as a function, from which ``torch.compile`` writes the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

    from workloads.catalog.flags.attention import AttentionData, AttentionShape

Index: TypeAlias = "torch.Tensor"
"""Of a sequence, a head, a position or a key, as a tensor without dimensions."""
NESTED, VARLEN, FLEX = "nested", "varlen", "flex"


@dataclass(frozen=True, slots=True)
class PackedSequences:
    """Queries, keys and values of all sequences, one sequence after the other.

    Each tensor has the shape (positions of all sequences, heads, width). Hidden keys and values at
    the end of a sequence are left out.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query_starts: torch.Tensor
    """The start of each sequence, and the end of the last one; int32."""
    key_starts: torch.Tensor
    query_length: int
    """Positions of a sequence."""
    key_length: int

    @property
    def grouped(self) -> bool:
        """Return whether several heads of queries share a head of keys and values."""
        return self.key.size(1) < self.query.size(1)

    def last_head(self, result: torch.Tensor) -> torch.Tensor:
        """Return the last head of the last sequence from a packed result."""
        return result[-self.query_length :, -1]

    def last_head_of_nested(self, result: Any) -> torch.Tensor:
        """Return the same from a nested result, whose positions come after its heads."""
        return self.last_head(result.transpose(1, 2).values())


def pack(shape: AttentionShape, data: AttentionData) -> PackedSequences:
    """Return the sequences one after the other, without hidden keys and values."""
    import torch

    query, key, value, _ = data

    def in_a_row(tensor: torch.Tensor, length: int) -> torch.Tensor:
        return tensor[:, :, :length].transpose(1, 2).flatten(0, 1).contiguous()

    keys = shape.key_length
    starts = torch.arange(shape.batch + 1, dtype=torch.int32, device=query.device)
    of_queries = starts * shape.length
    return PackedSequences(
        query=in_a_row(query, shape.length),
        key=in_a_row(key, keys),
        value=in_a_row(value, keys),
        query_starts=of_queries,
        # Nested tensors take lengths for equal where the offsets are the same tensor.
        key_starts=of_queries if keys == shape.length else starts * keys,
        query_length=shape.length,
        key_length=keys,
    )


def nested_attention(packed: PackedSequences, causal: bool) -> Callable[[], object]:
    """Return ``scaled_dot_product_attention`` of nested tensors (``torch.nested``)."""
    import torch

    def nest(tensor: torch.Tensor, starts: torch.Tensor, length: int) -> torch.Tensor:
        nested = torch.nested.nested_tensor_from_jagged(
            tensor, starts, min_seqlen=length, max_seqlen=length
        )
        return nested.transpose(1, 2)

    query = nest(packed.query, packed.query_starts, packed.query_length)
    key, value = (
        nest(tensor, packed.key_starts, packed.key_length) for tensor in (packed.key, packed.value)
    )
    return partial(
        torch.nn.functional.scaled_dot_product_attention,
        query,
        key,
        value,
        is_causal=causal,
        enable_gqa=packed.grouped,
    )


def varlen_attention(packed: PackedSequences, causal: bool) -> Callable[[], object]:
    """Return ``torch.nn.attention.varlen.varlen_attn`` of the packed sequences.

    Raises:
        ImportError: this torch does not have it.
    """
    from torch.nn.attention.varlen import varlen_attn

    # Named only where it is needed: older versions lack it.
    grouped: dict[str, Any] = {"enable_gqa": True} if packed.grouped else {}
    return partial(
        varlen_attn,
        packed.query,
        packed.key,
        packed.value,
        packed.query_starts,
        packed.key_starts,
        packed.query_length,
        packed.key_length,
        window_size=(-1, 0) if causal else (-1, -1),
        **grouped,
    )


def flex_attention(shape: AttentionShape, data: AttentionData) -> Callable[[], object]:
    """Return the compiled ``flex_attention``; its first call compiles the kernel."""
    import torch
    from torch.nn.attention import flex_attention as flex

    query, key, value, _ = data
    visible = shape.key_length

    def sees_earlier(_batch: Index, _head: Index, position: Index, seen: Index) -> torch.Tensor:
        return position >= seen

    def sees_visible(_batch: Index, _head: Index, _position: Index, seen: Index) -> torch.Tensor:
        return seen < visible

    block_mask = None
    if shape.causal or visible < shape.length:
        rule = sees_earlier if shape.causal else sees_visible
        block_mask = flex.create_block_mask(
            rule, None, None, shape.length, shape.length, device=query.device
        )
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    grouped = shape.kv_heads < shape.heads
    return partial(compiled, query, key, value, block_mask=block_mask, enable_gqa=grouped)


@contextmanager
def compiler() -> Iterator[None]:
    """Compile in this process during the block, and reset the compiler after it."""
    from workloads.catalog.shared.tools import compiling_cold

    with ExitStack() as stack:
        stack.callback(compiling_cold())
        yield
