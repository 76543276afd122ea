"""Prefill and decode of a language model: what they count, and that cache and prompt agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.runs import column, numbers, ok, ran
from tests.catalog.stand_ins import Told, studied
from workloads.catalog.shared.decoder import Decoder, DecoderShape, reference, rotated, turns
from workloads.declare.place import Place, attention_flop, count_flop
from workloads.measure import environment
from workloads.protocol.results import Limit, Setting

CPU = Place("cpu")
SMALL: dict[str, Setting] = {"width": 64, "heads": 4, "kv_heads": 2, "layers": 2}
LLAMA_3_8B = DecoderShape(4096, 32, 8, 32, "bfloat16")


def test_a_known_models_sizes_are_those_of_its_card() -> None:
    # 8.03e9 weights, less embedding and vocabulary of 128 256 tokens each and the last norm.
    embeddings = 2 * 128_256 * 4096
    assert LLAMA_3_8B.weight_bytes / 2 + embeddings + 4096 == 8_030_261_248
    # 32 layers x 8 heads x 128 numbers x key and value x 2 bytes.
    assert LLAMA_3_8B.kv_bytes == 128 * 1024


def test_a_decode_step_is_counted_by_hand() -> None:
    shape = DecoderShape(8, 2, 1, 1, "float32")
    # Queries and output 2 * 64, keys and values 2 * 32, three times 8 * 28; and two norms of 8.
    assert shape.products == 128 + 64 + 672
    assert shape.weight_bytes == 4 * (864 + 16)
    # Of each of 3 sequences 10 tokens are read and one is written: key and value of 4 numbers.
    assert shape.decode_bytes(3, 10) == 4 * 880 + 3 * 11 * 2 * 4 * 4
    assert shape.decode_flop(3, 10) == 2 * 3 * 864 + 4 * 3 * 2 * 10 * 4


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 3), st.integers(2, 16), st.sampled_from([(4, 4), (4, 2), (2, 1)]),
    st.integers(1, 2),
)  # fmt: skip
def test_the_flop_of_a_prompt_are_those_of_torchs_counter_below_the_diagonal(
    batch: int, length: int, heads: tuple[int, int], layers: int
) -> None:
    shape = DecoderShape(heads[0] * 8, heads[0], heads[1], layers, "float32")
    meta = torch.device("meta")
    decoder = Decoder(shape, CPU).to(meta)
    tokens = torch.empty(batch, length, shape.width, device=meta)
    turn, cache = decoder.turn(0, length).to(meta), decoder.cache(batch, length).to(meta)
    query = torch.empty(batch, heads[0], length, shape.head, device=meta)

    def attend() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)

    with torch.inference_mode():
        counted = count_flop(lambda: decoder(tokens, 0, turn, cache)) - layers * count_flop(attend)
    below = attention_flop(batch, heads[0], length, shape.head, causal=True)
    assert shape.prefill_flop(batch, length) == counted + layers * below


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_blocks_and_cache_follow_the_formulas_exactly_in_float32(kv_heads: int) -> None:
    shape = DecoderShape(32, 4, kv_heads, 2, "float32")
    decoder, length = Decoder(shape, CPU), 9
    prompt, turn, cache = CPU.randn(2, length, 32), decoder.turn(0, length), decoder.cache(2, 12)
    with torch.inference_mode():
        whole = decoder(prompt, 0, turn, cache)
        fresh = decoder.cache(2, 12)
        decoder(prompt[:, :4].contiguous(), 0, turn[:, :4], fresh)
        steps = [
            decoder(prompt[:, i : i + 1], i, turn[:, i : i + 1], fresh) for i in range(4, length)
        ]
    assert torch.allclose(whole[1].double(), reference(decoder, prompt[1]), atol=1e-5)
    assert torch.allclose(torch.cat(steps, 1), whole[:, 4:], atol=1e-5)


@given(st.integers(0, 500), st.integers(0, 500))
@settings(deadline=None)
def test_a_turned_product_depends_on_the_distance_alone(first: int, distance: int) -> None:
    vector, other = torch.arange(8).double(), torch.arange(8).double().flip(0)

    def product(at: int, beside: int) -> float:
        one = rotated(vector[None], turns(8, at, 1))
        return float((one * rotated(other[None], turns(8, beside, 1))).sum())

    assert product(first, first + distance) == pytest.approx(product(0, distance), abs=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_prompt_is_timed_by_its_length(dtype: str) -> None:
    result = ok("llm_prefill", length=48, batch=2, dtype=dtype, **SMALL)
    assert numbers(result, "prompts", "tokens") == [16, 32, 48]
    assert result.check is not None
    assert result.check.passed
    assert result.time is not None
    assert result.figures["rate"].value == pytest.approx(2 * 48 / result.time.median_s)


def test_decode_counts_its_bytes_and_says_how_many_tokens_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Place, "free_memory", lambda _place: 10**9)
    result = ok("llm_decode", context=32, batch=2, largest=4, dtype="float32", **SMALL)
    per_token = 2 * 2 * 2 * 16 * 4
    assert result.figures["kv_cache_per_token"].value == per_token
    assert result.figures["tokens_that_fit"].value == 10**9 // per_token
    assert column(result, "fit", "sequences")[0] == 10**9 // (2048 * per_token)
    weights = result.figures["weights"].value
    assert isinstance(weights, float)
    assert result.figures["bytes_per_token"].value == weights / 2 + 33 * per_token
    assert numbers(result, "batches", "batch") == [1, 2, 4]
    each = numbers(result, "batches", "bytes per token")
    assert each == sorted(each, reverse=True)
    assert result.check is not None
    assert result.check.passed


@pytest.mark.parametrize(
    ("cache_bytes", "known", "expected"),
    [
        (0, True, 1e12),
        (0, False, "the memory's rate is unknown here: run the workload ceiling"),
        (2**30, True, "cache"),
    ],
)
def test_the_memorys_rate_bounds_the_tokens_of_a_step(
    cache_bytes: int, known: bool, expected: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limit(_told: Told, kind: str, rate: float) -> Limit | None:
        return Limit(kind, 1e12, rate / 1e12, "a test") if known else None

    monkeypatch.setattr(Told, "limit", limit)
    monkeypatch.setattr(environment, "last_cache", lambda _device: cache_bytes)
    found = studied(
        "llm_decode", CPU, [1.0], context=32, batch=2, largest=1, dtype="float32", **SMALL
    )
    bound = found.figures["rate_limit"]
    if isinstance(expected, str):
        assert bound.value is None
        assert expected in found.unavailable["figures.rate_limit"]
    else:
        per_token = found.figures["bytes_per_token"].value
        assert isinstance(per_token, float)
        assert bound.value == pytest.approx(expected / per_token)


def test_the_sweep_ends_where_the_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 2_000_000
    monkeypatch.setattr(Place, "free_memory", lambda _place: room)
    result = ok("llm_decode", context=64, batch=1, largest=4096, dtype="float32", **SMALL)
    assert numbers(result, "batches", "batch")[-1] < 4096
    assert any(line.startswith("ended: a cache of") for line in result.log)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"width": 60, "heads": 4}, "a multiple of twice heads=4"),
        ({"width": 64, "heads": 4, "kv_heads": 3}, "a divisor of heads=4"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(given: dict[str, Setting], reason: str) -> None:
    result = ran("llm_decode", "cpu", **given)
    assert result.status == "failed"
    assert reason in (result.reason or "")
