"""The blocks of a language model's decoder, with a cache of keys and values.

It needs torch, so workloads import it when they run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from workloads.declare.place import DTYPES, SEED, Place, attention_flop

ROPE_BASE = 10_000.0
"""Base of the rotary embedding's wavelengths (Su et al. 2021, RoFormer)."""
EPSILON = 1e-6
"""The epsilon of RMSNorm, as in Llama."""


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The sizes of a decoder: blocks as in Llama 3, without embedding and vocabulary."""

    width: int
    heads: int
    kv_heads: int
    layers: int
    dtype: str

    @property
    def head(self) -> int:
        """Return the width of a head."""
        return self.width // self.heads

    @property
    def hidden(self) -> int:
        """Return the width of the perceptron: 3.5 times the model's, as in Llama 3 8B and 70B."""
        return self.width * 7 // 2

    @property
    def itemsize(self) -> int:
        """Return the bytes of a number."""
        return DTYPES[self.dtype].itemsize

    @property
    def products(self) -> int:
        """Return the entries of all matrices.

        A block has queries and output (w² each), keys and values (w times the width of all KV heads
        each), and the perceptron's gate, up and down matrices.
        """
        of_kv = self.kv_heads * self.head
        block = 2 * self.width**2 + 2 * self.width * of_kv + 3 * self.width * self.hidden
        return self.layers * block

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of the matrices and of both norms of each block."""
        return self.itemsize * (self.products + self.layers * 2 * self.width)

    @property
    def kv_bytes(self) -> int:
        """Return the bytes that the cache holds for a token: a key and a value per KV head."""
        return 2 * self.layers * self.kv_heads * self.head * self.itemsize

    def prefill_flop(self, batch: int, length: int) -> int:
        """Return the FLOP of a prompt's forward pass.

        Two operations per matrix entry and token (Kaplan et al. 2020, table 1), and the attention
        below the diagonal.
        """
        attention = attention_flop(batch, self.heads, length, self.head, causal=True)
        return 2 * batch * length * self.products + self.layers * attention

    def decode_flop(self, batch: int, context: int) -> int:
        """Return the FLOP of one step: a token per sequence attends to ``context`` tokens."""
        attention = 4 * batch * self.heads * context * self.head
        return 2 * batch * self.products + self.layers * attention

    def decode_bytes(self, batch: int, context: int) -> int:
        """Return the bytes that one step must move.

        All weights and the cached keys and values are read once, and a token's are written (Pope
        et al. 2022, Efficiently Scaling Transformer Inference).
        """
        return self.weight_bytes + batch * (context + 1) * self.kv_bytes


class DecoderBlock(nn.Module):
    """Grouped-query attention with rotary positions and a gated perceptron, after RMSNorm each."""

    def __init__(self, shape: DecoderShape, device: torch.device) -> None:
        super().__init__()
        self.shape = shape
        dtype, of_kv = DTYPES[shape.dtype], shape.kv_heads * shape.head

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False, device=device, dtype=dtype)

        self.before_attention = nn.RMSNorm(shape.width, EPSILON, device=device, dtype=dtype)
        self.query = linear(shape.width, shape.width)
        self.key_value = linear(shape.width, 2 * of_kv)
        self.project = linear(shape.width, shape.width)
        self.before_mlp = nn.RMSNorm(shape.width, EPSILON, device=device, dtype=dtype)
        self.gate_up = linear(shape.width, 2 * shape.hidden)
        self.down = linear(shape.hidden, shape.width)

    def forward(
        self, tokens: torch.Tensor, start: int, turn: torch.Tensor, cache: torch.Tensor
    ) -> torch.Tensor:
        """Map batch x length x width to the same shape, and fill the cache from ``start`` on.

        Args:
            tokens: vectors of consecutive positions.
            start: the first of these positions; 0, or any position of a single token.
            turn: cosines and sines of the positions, 2 x length x head.
            cache: keys and values, 2 x batch x KV heads x positions x head.
        """
        shape, (batch, length, width) = self.shape, tokens.shape
        normed = self.before_attention(tokens)
        query = self.query(normed).view(batch, length, shape.heads, shape.head).transpose(1, 2)
        key_value = self.key_value(normed).view(batch, length, 2, shape.kv_heads, shape.head)
        key, value = key_value.permute(2, 0, 3, 1, 4)
        end = start + length
        cache[0, :, :, start:end] = rotated(key, turn)
        cache[1, :, :, start:end] = value
        mixed = functional.scaled_dot_product_attention(
            rotated(query, turn),
            cache[0, :, :, :end],
            cache[1, :, :, :end],
            is_causal=length > 1,
            enable_gqa=shape.kv_heads < shape.heads,
        )
        tokens = tokens + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.before_mlp(tokens)).chunk(2, dim=-1)
        return tokens + torch.as_tensor(self.down(functional.silu(gate) * up))


class Decoder(nn.Module):
    """A decoder's blocks, with the same weights in every process."""

    def __init__(self, shape: DecoderShape, on: Place) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.shape, self.on = shape, on
        self.blocks = nn.ModuleList(DecoderBlock(shape, on.device) for _ in range(shape.layers))

    def cache(self, batch: int, positions: int) -> torch.Tensor:
        """Return an empty cache: layers x 2 x batch x KV heads x positions x head."""
        shape = self.shape
        sizes = (shape.layers, 2, batch, shape.kv_heads, positions, shape.head)
        return torch.zeros(sizes, device=self.on.device, dtype=DTYPES[shape.dtype])

    def turn(self, start: int, length: int) -> torch.Tensor:
        """Return cosines and sines of the rotary embedding, 2 x length x head."""
        return turns(self.shape.head, start, length).to(self.on.device, DTYPES[self.shape.dtype])

    def forward(
        self, tokens: torch.Tensor, start: int, turn: torch.Tensor, cache: torch.Tensor
    ) -> torch.Tensor:
        """Return the vectors after all blocks; the arguments are those of :class:`DecoderBlock`."""
        for block, layer in zip(self.blocks, cache, strict=True):
            tokens = block(tokens, start, turn, layer)
        return tokens


def turns(head: int, start: int, length: int) -> torch.Tensor:
    """Return cosines and sines in float64 on the CPU, 2 x length x head (Su et al. 2021)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head, 2).double() / head)
    angle = torch.outer(torch.arange(start, start + length).double(), frequency).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()])


def rotated(vectors: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Return vectors (… x length x head) turned by their positions' angles."""
    first, second = vectors.chunk(2, dim=-1)
    return vectors * turn[0] + torch.cat([-second, first], dim=-1) * turn[1]


def reference(decoder: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    """Return the decoder's result by its formulas, in float64 on the CPU, a block at a time.

    Args:
        decoder: of any device and dtype.
        tokens: one sequence from position 0 on, length x width.
    """
    shape, length = decoder.shape, tokens.shape[0]
    state, turn = tokens.cpu().double(), turns(shape.head, 0, length)
    hidden = torch.ones(length, length).triu(1).bool()
    groups = shape.heads // shape.kv_heads

    def norm(vectors: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return weight * vectors / (vectors.square().mean(-1, keepdim=True) + EPSILON).sqrt()

    # In a function, so that one block's weights are freed before the next one's are copied.
    def after(block: nn.Module, state: torch.Tensor) -> torch.Tensor:
        weight = {name: tensor.cpu().double() for name, tensor in block.state_dict().items()}
        normed = norm(state, weight["before_attention.weight"])
        query = (normed @ weight["query.weight"].T).view(length, shape.heads, -1).transpose(0, 1)
        key, value = (
            part.view(length, shape.kv_heads, -1).transpose(0, 1).repeat_interleave(groups, 0)
            for part in (normed @ weight["key_value.weight"].T).chunk(2, dim=-1)
        )
        scores = rotated(query, turn) @ rotated(key, turn).transpose(1, 2) / shape.head**0.5
        mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value
        state = state + mixed.transpose(0, 1).reshape(length, -1) @ weight["project.weight"].T
        normed = norm(state, weight["before_mlp.weight"])
        gate, up = (normed @ weight["gate_up.weight"].T).chunk(2, dim=-1)
        return torch.as_tensor(state + (functional.silu(gate) * up) @ weight["down.weight"].T)

    for block in decoder.blocks:
        state = after(block, state)
    return state
