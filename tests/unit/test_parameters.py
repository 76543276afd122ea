"""Typed parameters: what is taken, what is refused and in which words."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.runs.state.parameters import (
    Invalid,
    Sweep,
    Valid,
    describe_allowed,
    format_short,
    format_value,
    parse_sweep,
    parse_value,
    validate,
)
from tui.runs.sweeps.sweep_result import format_settings
from workloads import catalog
from workloads.declare.workload import checked, infos, whole
from workloads.protocol.results import ParameterInfo, Setting, WorkloadInfo

assert catalog

SIZE = ParameterInfo("size", 4096, "rows", minimum=16, maximum=65_536)
DTYPE = ParameterInfo("dtype", "float32", "of the numbers", ("float32", "bfloat16"))
PAIRS = ParameterInfo("pairs", 2, "how many", (1, 2, 4))
PINNED = ParameterInfo("pinned", True, "page-locked", (True, False))
INFO = WorkloadInfo("matmul", "compute", "", "", "", (SIZE, DTYPE, PAIRS, PINNED), ("cpu",))


@given(st.integers())
def test_a_whole_number_is_taken_exactly_where_the_runner_takes_it(value: int) -> None:
    try:
        taken = checked("matmul", SIZE, value)
    except ValueError:
        with pytest.raises(ValueError, match="whole number, 16 to 65536"):
            parse_value(SIZE, str(value))
    else:
        assert parse_value(SIZE, str(value)) == taken


@given(st.text(max_size=30))
def test_any_text_is_taken_or_refused_in_one_line(text: str) -> None:
    for info in INFO.parameters:
        outcome = validate(INFO, {info.name: text})
        if isinstance(outcome, Invalid):
            assert describe_allowed(info) in outcome.errors[info.name]
            assert "\n" not in outcome.errors[info.name]
        else:
            value = outcome.parameters[info.name]
            assert checked("matmul", info, value) == value
            assert type(value) is type(info.default)


@given(st.sampled_from(INFO.parameters), st.data())
def test_what_is_shown_can_be_typed_back(info: ParameterInfo, data: st.DataObject) -> None:
    low, high = info.minimum or 0, info.maximum or 9
    values = st.sampled_from(info.choices) if info.choices else st.integers(low, high)
    value: Setting = data.draw(values)
    assert parse_value(info, format_value(value)) == value


@pytest.mark.parametrize("text", ["65 536", "65_536", " 65536 "])
def test_groups_of_digits_are_taken_back(text: str) -> None:
    assert parse_value(SIZE, text) == 65_536


@pytest.mark.parametrize("text", ["", "1e3", "4096.0", "٤٠٩٦", "nan", "true"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not allowed; whole number, 16 to 65536"):
        parse_value(SIZE, text)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "x"])
def test_a_number_must_be_finite(text: str) -> None:
    info = ParameterInfo("rate", 0.5, "share", minimum=0, maximum=1)
    with pytest.raises(ValueError, match="number, 0 to 1"):
        parse_value(info, text)


def test_parameters_that_are_not_named_keep_their_value() -> None:
    outcome = validate(INFO, {"dtype": "bfloat16"}, {"size": 64})
    assert outcome == Valid({"size": 64, "dtype": "bfloat16", "pairs": 2, "pinned": True})


def test_every_bad_parameter_gets_its_line() -> None:
    outcome = validate(INFO, {"size": "7", "dtype": "int8", "colour": "red"})
    assert outcome == Invalid(
        {
            "size": "size: 7 is not allowed; whole number, 16 to 65536",
            "dtype": "dtype: int8 is not allowed; float32, bfloat16",
            "colour": "matmul has no parameter colour; it has size, dtype, pairs, pinned",
        }
    )


def test_a_number_that_is_left_to_the_workload_is_shown_and_typed_as_auto() -> None:
    info = replace(whole(1, 64, "images", auto="4 on the CPU, 64 on a GPU"), name="batch")
    assert info.about == "images; auto: 4 on the CPU, 64 on a GPU"
    assert describe_allowed(info) == "auto, or a whole number, 1 to 64"
    assert format_value(0, auto=info.auto) == "auto"
    assert format_value(8, auto=info.auto) == "8"
    for typed in ("auto", "Auto", "0"):
        assert parse_value(info, typed) == 0
        assert checked("conv", info, parse_value(info, typed)) == 0
    assert parse_value(info, "64") == 64
    for typed in ("65", "-1"):
        with pytest.raises(ValueError, match="auto, or a whole number, 1 to 64"):
            parse_value(info, typed)
    with pytest.raises(ValueError, match="auto"):
        parse_value(SIZE, "auto")
    assert format_short({"batch": 0, "mib": 0}, ("batch",)) == "batch=auto mib=0"
    conv = WorkloadInfo("conv", "convolution", "", "", "", (info,), ("cpu",))
    swept = parse_sweep(conv, {"batch": "auto,8"})
    assert isinstance(swept, Sweep)
    assert [format_settings(swept, point) for point in swept.points] == ["batch=auto", "batch=8"]


def test_every_number_of_the_catalogue_that_0_leaves_to_the_workload_is_called_auto() -> None:
    for info in infos():
        for parameter in info.parameters:
            assert "0:" not in parameter.about, (info.name, parameter.name)
            assert parameter.auto == ("auto:" in parameter.about and parameter.default == 0)


def test_in_short_words_stand_alone_and_numbers_have_a_name() -> None:
    settings: dict[str, Setting] = {"cache": "warm", "dtype": "float32", "n": 2048, "pinned": True}
    for names in itertools.permutations(settings):
        ordered = {name: settings[name] for name in names}
        assert format_short(ordered) == "n=2048 pinned=true float32 warm", "one name everywhere"


def test_an_empty_word_takes_no_room() -> None:
    assert format_short({"hosts": 1, "rendezvous": "", "wait_s": 60}) == "hosts=1 wait_s=60"
