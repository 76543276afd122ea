"""Words that find workloads: by name, by meaning, nearly; what fits best comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.state_folder import imported_catalogue
from tui.runs.views.search import MEANINGS, rank_workloads

CATALOGUE = imported_catalogue()


def best(pattern: str) -> str:
    scores = rank_workloads(CATALOGUE, pattern)
    return max(scores, key=lambda name: scores[name])


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("sdpa", "attention"),
        ("gemm", "decode_gemm"),
        ("h2d", "transfer"),
        ("nccl", "all_reduce"),
        ("adamw", "optimizer_step"),
        ("stress", "burn"),
        ("safetensors", "load_weights"),
        ("matmul", "matmul"),
        ("dataloader", "data_loading"),
        ("mtmul", "matmul"),
        ("atention", "attention"),
    ],
)
def test_a_word_finds_what_is_meant(pattern: str, name: str) -> None:
    assert best(pattern) == name


def test_gemm_finds_all_matrix_products() -> None:
    assert {"matmul", "matmul_shapes", "decode_gemm"} <= set(rank_workloads(CATALOGUE, "gemm"))


def test_what_fits_better_has_a_higher_score() -> None:
    scores = rank_workloads(CATALOGUE, "matmul")
    assert scores["matmul"] > scores["matmul_sweep"]
    scores = rank_workloads(CATALOGUE, "conv")
    assert scores["conv2d"] > scores["resnet50_layers"]


def test_every_word_has_to_fit() -> None:
    both = rank_workloads(CATALOGUE, "attention cudnn")
    assert set(both) <= set(rank_workloads(CATALOGUE, "attention"))
    assert rank_workloads(CATALOGUE, "attention qqqqqq") == {}


def test_two_letters_find_nothing_loosely() -> None:
    assert rank_workloads(CATALOGUE, "qz") == {}


def test_each_meaning_is_of_a_workload_that_there_is() -> None:
    for part in MEANINGS:
        assert any(part in info.name for info in CATALOGUE), part


@given(st.text(max_size=12))
def test_any_text_is_a_pattern(pattern: str) -> None:
    scores = rank_workloads(CATALOGUE, pattern)
    assert set(scores) <= {info.name for info in CATALOGUE}
    if not pattern.split():
        assert len(scores) == len(CATALOGUE)
