"""Results stored by version 0.2 are compared with present ones under the same flags."""

from __future__ import annotations

import json

import pytest

from tui.results.store.records import Facts
from tui.results.store.validity import decode_facts

PRODUCTS = "flag cuda.matmul.fp32_precision"
CONVOLUTIONS = "flag cudnn.conv.fp32_precision"
ONEDNN = {
    "flag mkldnn.conv.fp32_precision": "ieee",
    "flag mkldnn.matmul.fp32_precision": "ieee",
}


@pytest.mark.parametrize(("older", "present"), [("on", "tf32"), ("off", "ieee")])
def test_a_flag_of_version_0_2_has_its_present_name(older: str, present: str) -> None:
    stored = {"box": "one", "flag cudnn.enabled": "on", "flag cudnn.allow_tf32": older}
    found = decode_facts(json.dumps(stored), "{}")
    expected = {
        "box": "one",
        "flag cudnn.enabled": "on",
        CONVOLUTIONS: present,
        PRODUCTS: "ieee",
        **ONEDNN,
    }
    assert found.values == expected
    assert found.flags == Facts(expected).flags


def test_present_names_stay() -> None:
    stored = {"box": "one", CONVOLUTIONS: "ieee", PRODUCTS: "tf32"}
    assert decode_facts(json.dumps(stored), "{}").values == stored
    assert decode_facts('{"box": "a cpu"}', "{}").values == {"box": "a cpu"}


def test_a_flag_that_came_later_was_off() -> None:
    stored = {"box": "one", "flag mkldnn.enabled": "on", PRODUCTS: "tf32"}
    expected = {**stored, **ONEDNN}
    assert decode_facts(json.dumps(stored), "{}").values == expected
    switched = {**expected, "flag mkldnn.conv.fp32_precision": "bf16"}
    assert decode_facts(json.dumps(switched), "{}").values == switched
