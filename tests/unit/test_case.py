"""What a case may say of the work that one call does."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.declare.workload import Case

COUNTS = ("flop", "byte", "item")


def case(name: str, value: object) -> Case:
    given: dict[str, Any] = {name: value}
    return Case(lambda: None, **given)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, -math.inf, 10**400])
def test_a_count_that_no_rate_can_be_made_of_is_refused_with_its_name(
    name: str, value: object
) -> None:
    with pytest.raises(ValueError, match=rf"Case\({name}=.*: a finite number, 0 or more") as found:
        case(name, value)
    assert len(str(found.value)) < 120


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Case\({name}=...\): a number, not a str"):
        case(name, "8")


@given(st.sampled_from(COUNTS), st.integers(0, 1 << 62) | st.none())
def test_any_other_count_is_taken(name: str, value: int | None) -> None:
    assert getattr(case(name, value), name) == value
