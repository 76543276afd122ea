"""A language model's two phases: reading a prompt (prefill) and writing tokens (decode)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import (
    Case,
    ParameterError,
    Skip,
    by_device,
    one_of,
    whole,
    workload,
)
from workloads.limits import limits
from workloads.measure import estimates
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.catalog.shared.decoder import DecoderShape
    from workloads.declare.place import Place

WIDTHS = 1024, 2048
CHECKED_TOKENS = 16
"""Tokens of the first sequence that are compared: under a causal mask they depend on no later."""
DEPTH_FACTOR = 4
"""Consecutive blocks increase the error of a single product by this factor."""
CONTEXTS = (2048, 8192, 32_768, 131_072)
"""Lengths of conversations for which the sequences that fit are counted."""
SHORTEST_PROMPT = 16
LONGEST_STEP_S = 0.25
"""Step time beyond which no larger batch or longer prompt is tried."""
PASSING = 10
"""Vectors of a token that exist at once in a block, beside the perceptron's hidden layer: the
token's, the normed one, queries before and after their turn with its terms, keys and values, and
the attention's result before and after its transposition."""
PASSING_HIDDEN = 4
"""Hidden layers that exist at once: gate and up, SiLU of the gate, their product."""

Width = Annotated[int, whole(2, 16_384, "width of a token's vector", auto=by_device(WIDTHS))]
Heads = Annotated[int, whole(1, 256, "heads of the attention, a divisor of the width")]
KvHeads = Annotated[int, whole(1, 256, "heads of keys and values, a divisor of the heads")]
Layers = Annotated[int, whole(1, 128, "blocks of the decoder")]
Dtype = Annotated[str, one_of(("bfloat16", "float16", "float32"), "of weights and cache")]


@workload(
    group="llm",
    title="LLM prefill: read a prompt",
    about="Decoder blocks as in Llama 3 (RMSNorm, rotary positions, grouped-query attention, gated "
    "perceptron) read whole prompts and fill the cache of keys and values. Embedding and "
    "vocabulary are left out.",
    look_for="Tokens/s over the length of the prompt: short prompts wait for the weights to be "
    "read, long ones for the products, and the share of the limit should be that of a large "
    "product. The time of the call is the time to the first token. Fewer KV heads make the cache "
    "smaller, not the prefill much faster.",
)
def llm_prefill(
    on: Place,
    width: Width = 0,
    heads: Heads = 32,
    kv_heads: KvHeads = 8,
    layers: Layers = 6,
    batch: Annotated[int, whole(1, 1024, "prompts at once")] = 1,
    length: Annotated[int, whole(2, 131_072, "tokens of a prompt")] = 512,
    dtype: Dtype = "bfloat16",
) -> Case:
    from workloads.catalog.shared.decoder import Decoder, reference
    from workloads.declare.place import TOLERANCES, against_float64, attention_precision
    from workloads.scripts.llm_prefill import prefill

    shape = _shape("llm_prefill", on, width, heads, kv_heads, layers, dtype)
    _require(on, shape, batch * length, _count_passing(on, shape, batch, length, length))
    decoder = Decoder(shape, on)
    cache = decoder.cache(batch, length)
    prompt, turn = on.randn(batch, length, shape.width, dtype=dtype), decoder.turn(0, length)

    timed = partial(prefill, decoder, prompt, turn, cache)

    def check() -> Check:
        count = min(length, CHECKED_TOKENS)
        expected = reference(decoder, prompt[0, :count])
        reference_name = f"the first {count} tokens by the formulas, in float64 on the CPU"
        return against_float64(
            timed()[0, :count], expected, DEPTH_FACTOR * TOLERANCES[used], reference_name
        )

    def study(study: Study) -> None:
        study.figure("rate", batch * length / study.median_s, "tokens/s", "of all prompts")
        _sizes(study, on, shape)
        study.table(
            "prompts", f"by length of the prompt, {batch} at once",
            "tokens", ("time to first token", "s"), ("rate", "tokens/s"), ("products", "FLOP/s"),
            "FLOP per byte of weights",
        )  # fmt: skip
        for count in estimates.doublings(SHORTEST_PROMPT, length):
            some = prompt[:, :count].contiguous()
            seconds = study.time(partial(prefill, decoder, some, turn[:, :count], cache))
            flop = shape.prefill_flop(batch, count)
            study.row(
                "prompts", float(count), seconds, batch * count / seconds, flop / seconds,
                flop / shape.weight_bytes,
            )  # fmt: skip
            study.check_rate(f"a prompt of {count}", flop / seconds)

    used = attention_precision(on, dtype)
    return Case(
        timed,
        clock="wall",
        flop=shape.prefill_flop(batch, length),
        chosen={"width": shape.width},
        precision=used,
        check=check,
        study=study,
    )


@workload(
    group="llm",
    title="LLM decode: write tokens",
    about="Decoder blocks as in Llama 3 write one token for each sequence of the batch. Each step "
    "reads all weights, and the keys and values of all tokens before it. Embedding and vocabulary "
    "are left out.",
    look_for="Bytes per token against the memory's rate: one sequence reads all weights for a "
    "single token, and each further one shares them, so tokens/s grow with the batch until its "
    "cache is as large as the weights. The tables say how many tokens fit in the memory that is "
    "free. On a GPU small models wait for their launches instead: see cuda_graphs.",
)
def llm_decode(
    on: Place,
    width: Width = 0,
    heads: Heads = 32,
    kv_heads: KvHeads = 8,
    layers: Layers = 6,
    batch: Annotated[int, whole(1, 4096, "sequences")] = 1,
    context: Annotated[int, whole(2, 131_072, "tokens of a sequence, the new one included")] = 512,
    largest: Annotated[int, whole(1, 4096, "largest batch of the sweep")] = 64,
    dtype: Dtype = "bfloat16",
) -> Case:
    import torch

    from workloads.catalog.shared.decoder import Decoder
    from workloads.declare.place import TOLERANCES, attention_precision, relative
    from workloads.measure import environment
    from workloads.scripts.llm_decode import decode

    shape = _shape("llm_decode", on, width, heads, kv_heads, layers, dtype)
    # The check reads one prompt, into a cache of its own.
    checked = _count_passing(on, shape, 1, context, context) + context * shape.kv_bytes
    passing = max(_count_passing(on, shape, batch, 1, context), checked)
    _require(on, shape, batch * context, passing)
    decoder = Decoder(shape, on)
    turn = decoder.turn(0, context)
    last = context - 1

    def prepared(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the last tokens, and a cache of random keys and values."""
        cache = decoder.cache(batch, context)
        cache.normal_()
        return on.randn(batch, 1, shape.width, dtype=dtype), cache

    token, cache = prepared(batch)

    def step(token: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return decode(decoder, token, last, turn[:, last:], cache)

    timed = partial(step, token, cache)

    def check() -> Check:
        prompt = on.randn(1, context, shape.width, dtype=dtype)
        own = decoder.cache(1, context)
        with torch.inference_mode():
            whole_prompt = decoder(prompt, 0, turn, own)[:, last].float()
            own[:, :, :, :, last] = 0  # the step has to write it
        written = step(prompt[:, last:], own)[:, 0].float()
        difference = float((written - whole_prompt).abs().max())
        reference_name = "the prefill's vector of the last token"
        tolerance = DEPTH_FACTOR * TOLERANCES[used]
        return relative(difference, float(whole_prompt.abs().max()), tolerance, reference_name)

    def study(study: Study) -> None:
        moved = shape.decode_bytes(batch, context)
        study.figure("rate", batch / study.median_s, "tokens/s", "of all sequences")
        about = "read and written by one step, over the tokens that it writes"
        study.figure("bytes_per_token", moved / batch, "byte", about)
        _bandwidth_bound(study, moved, batch, cache_bytes)
        _sizes(study, on, shape)
        _fit(study, on, shape)
        study.table(
            "batches", f"by batch, {context} tokens each",
            "batch", ("step", "s"), ("rate", "tokens/s"), ("bytes per token", "byte"),
            ("traffic", "byte/s"), "FLOP per byte",
        )  # fmt: skip
        for count in estimates.doublings(1, largest):
            try:
                passing = _count_passing(on, shape, count, 1, context)
                room = count * context * shape.kv_bytes + passing
                on.require(room, f"a cache of {count * context} tokens")
            except Skip as skip:
                study.log_line(f"ended: {skip}")
                break
            seconds = study.time(partial(step, *prepared(count)))
            moved = shape.decode_bytes(count, context)
            study.row(
                "batches", float(count), seconds, count / seconds, moved / count, moved / seconds,
                shape.decode_flop(count, context) / moved,
            )  # fmt: skip
            if limits.cached(limits.MEMORY, moved, cache_bytes) is None:
                study.check_rate(f"a batch of {count}", moved / seconds, limits.MEMORY)
            if seconds > LONGEST_STEP_S:
                study.log_line(f"ended: a step of {count} takes more than {LONGEST_STEP_S:g} s")
                break

    cache_bytes = environment.last_cache(on.device)
    used = attention_precision(on, dtype)
    return Case(
        timed,
        clock="wall",
        flop=shape.decode_flop(batch, context),
        byte=shape.decode_bytes(batch, context),
        chosen={"width": shape.width},
        precision=used,
        byte_limit="memory",
        check=check,
        study=study,
    )


def _shape(
    name: str, on: Place, width: int, heads: int, kv_heads: int, layers: int, dtype: str
) -> DecoderShape:
    """Return the decoder's sizes.

    Raises:
        ParameterError: they do not divide each other.
    """
    from workloads.catalog.shared.decoder import DecoderShape

    width = on.sizes(width=(width, WIDTHS))["width"]
    if width % (2 * heads):
        raise ParameterError(f"{name}: width={width}: a multiple of twice heads={heads}")
    if heads % kv_heads:
        raise ParameterError(f"{name}: kv_heads={kv_heads}: a divisor of heads={heads}")
    return DecoderShape(width, heads, kv_heads, layers, dtype)


def _require(on: Place, shape: DecoderShape, tokens: int, passing: int) -> None:
    """Check that there is room for the weights, a cache of ``tokens``, and ``passing`` bytes."""
    # The check computes a block at a time in float64 on the CPU, or has a cache of its own.
    block = shape.weight_bytes // shape.layers
    host = (8 // shape.itemsize + 1) * block
    cache = tokens * shape.kv_bytes
    purpose = f"{shape.layers} blocks and a cache of {tokens} tokens"
    beside = host if on.type == "cpu" else 0
    on.require(shape.weight_bytes + cache + max(passing, beside), purpose, host=host)


def _count_passing(on: Place, shape: DecoderShape, batch: int, tokens: int, positions: int) -> int:
    """Return the bytes of the tensors of ``tokens`` new tokens per sequence within a block."""
    vectors = PASSING * shape.width + PASSING_HIDDEN * shape.hidden
    passing = batch * tokens * vectors * shape.itemsize
    if shape.dtype == "float32" and shape.kv_heads < shape.heads and on.type != "cpu":
        # No fused kernel takes grouped queries in float32: the math kernel stores all scores.
        passing += batch * shape.heads * positions * (13 * tokens + 8 * shape.head)
    return passing


def _sizes(study: Study, on: Place, shape: DecoderShape) -> None:
    """Add the bytes of the weights and of a cached token, and the tokens that fit."""
    study.figure("weights", float(shape.weight_bytes), "byte", "all blocks, read once per step")
    about = f"keys and values of {shape.kv_heads} KV heads in {shape.layers} blocks"
    study.figure("kv_cache_per_token", float(shape.kv_bytes), "byte", about)
    about = "in the cache of all sequences together, with the memory free beside this run"
    on.empty_cache()
    free = on.free_memory()
    if free is None:
        study.absent("tokens_that_fit", "the free memory is unknown", "", about)
    else:
        study.figure("tokens_that_fit", float(free // shape.kv_bytes), "", about)


def _bandwidth_bound(study: Study, moved: int, batch: int, cache_bytes: int | None) -> None:
    """Add the tokens/s at which a step's bytes would take all of the memory's rate.

    Args:
        study: the findings.
        moved: bytes of a step.
        batch: tokens that it writes.
        cache_bytes: size of the device's last cache; ``None`` if unknown.
    """
    about = "if its bytes alone took time, at the limit of the memory's rate"
    cached = limits.cached(limits.MEMORY, moved, cache_bytes)
    limit = study.limit(limits.MEMORY, moved / study.median_s)
    if cached is not None or limit is None:
        reason = cached or "the memory's rate is unknown here: run the workload ceiling"
        study.absent("rate_limit", reason, "tokens/s", about)
    else:
        study.figure("rate_limit", batch * limit.value / moved, "tokens/s", about)


def _fit(study: Study, on: Place, shape: DecoderShape) -> None:
    """Add how many sequences of each length fit into the memory that is free."""
    free = on.free_memory()
    if free is None:
        return
    study.table(
        "fit", "sequences whose cache fits into the free memory",
        "tokens each", ("cache of one", "byte"), "sequences",
    )  # fmt: skip
    for context in CONTEXTS:
        cache_bytes = context * shape.kv_bytes
        study.row("fit", float(context), float(cache_bytes), float(free // cache_bytes))
