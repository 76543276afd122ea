"""Each setting of a flag has one word; the flag of an operation acts on the workloads with it."""

from __future__ import annotations

from typing import get_args

import pytest

from workloads.measure import torch_state
from workloads.protocol.flag_words import (
    acts_on,
    compares,
    format_setting,
    format_switched,
    parse_setting,
)
from workloads.protocol.results import Convolutions

PRODUCTS = "cuda.matmul.fp32_precision"
CONVOLUTIONS = "cudnn.conv.fp32_precision"


@pytest.mark.parametrize("flag", list(torch_state.BY_NAME))
@pytest.mark.parametrize("value", [True, False])
def test_a_setting_is_parsed_from_its_word(flag: str, value: bool) -> None:
    assert parse_setting(flag, f" {format_setting(flag, value).upper()} ") is value
    assert parse_setting(flag, "on" if value else "off") is value


def test_a_precision_has_the_words_of_torch_and_another_switch_has_not() -> None:
    assert [format_setting(PRODUCTS, value) for value in (False, True)] == ["ieee", "tf32"]
    assert format_setting("cudnn.benchmark", True) == "on"
    assert parse_setting("cudnn.benchmark", "tf32") is None
    assert parse_setting(PRODUCTS, "bf16") is None
    onednn = "mkldnn.matmul.fp32_precision"
    assert [format_setting(onednn, value) for value in (False, True)] == ["ieee", "bf16"]
    assert parse_setting(onednn, "tf32") is None


def test_a_verdict_names_the_setting_that_is_not_simply_on() -> None:
    assert format_switched("cudnn.benchmark", True) == "cudnn.benchmark"
    assert format_switched("cudnn.benchmark", False, "benchmark") == "benchmark off"
    assert format_switched(PRODUCTS, True, "matmul.fp32") == "matmul.fp32 tf32"
    assert format_switched(PRODUCTS, False) == f"{PRODUCTS} ieee"


@pytest.mark.parametrize(
    ("flag", "acts", "compared"),
    [
        ("cudnn.benchmark", (False, True, True), (False, False, True)),
        (CONVOLUTIONS, (False, True, True), (False, False, True)),
        (PRODUCTS, (True, True, False), (True, True, False)),
        ("mkldnn.conv.fp32_precision", (False, True, True), (False, False, True)),
        ("mkldnn.matmul.fp32_precision", (True, True, False), (True, True, False)),
        ("mkldnn.enabled", (True, True, True), (False, False, True)),
    ],
)
def test_a_flag_acts_on_the_workloads_with_its_operation(
    flag: str, acts: tuple[bool, ...], compared: tuple[bool, ...]
) -> None:
    kinds = get_args(Convolutions)
    assert tuple(acts_on(flag, kind) for kind in kinds) == acts
    assert tuple(compares(flag, kind) for kind in kinds) == compared
