"""How a workload is declared and how its parameters are checked."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import catalog
from workloads.declare.place import Place
from workloads.declare.workload import (
    Case,
    ParameterError,
    complete,
    forget,
    infos_with_code,
    registered,
    with_code,
    workload,
)
from workloads.protocol.results import ParameterInfo, WorkloadInfo

assert catalog


def _info() -> WorkloadInfo:
    return registered()["matmul"].info


def test_the_parameters_are_the_arguments_with_their_rules() -> None:
    n, dtype, cache = _info().parameters
    assert (n.name, n.default, n.minimum, n.maximum) == ("n", 2048, 1, 65_536)
    assert dtype.choices == ("float32", "bfloat16", "float16", "float64")
    assert cache.choices == ("warm", "cold")


def test_each_workload_explains_itself() -> None:
    for name, declared in registered().items():
        info = declared.info
        assert info.title, name
        assert info.about.endswith("."), name
        assert info.look_for.endswith("."), name
        assert all(parameter.about for parameter in info.parameters), name


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("matmul", "return a @ b"),
        ("placement", "inputs = data.to(device)"),
        ("conv2d", "result.backward(gradient)"),
        ("mlp_training", "loss.backward()"),
        ("mlp_evaluation", "with torch.no_grad():"),
        ("transfer", "there.copy_(host, non_blocking=True)"),
    ],
)
def test_the_code_shown_is_the_code_that_is_timed(name: str, line: str) -> None:
    code = next(info.code for info in infos_with_code() if info.name == name)
    assert line in code
    assert not code.startswith(" ")


@given(st.integers(min_value=1, max_value=65_536))
def test_any_number_within_the_bounds_is_taken(n: int) -> None:
    assert complete(_info(), {"n": n}) == {"n": n, "dtype": "float32", "cache": "warm"}


@given(st.one_of(st.integers(max_value=0), st.integers(min_value=65_537)))
def test_any_number_outside_the_bounds_is_refused_with_the_bounds(n: int) -> None:
    with pytest.raises(ParameterError, match="from 1 to 65536"):
        complete(_info(), {"n": n})


@pytest.mark.parametrize("value", [True, 2.5, "2048"])
def test_what_is_no_whole_number_is_refused(value: bool | float | str) -> None:
    with pytest.raises(ParameterError, match="a whole number"):
        complete(_info(), {"n": value})


@pytest.mark.parametrize(
    ("parameter", "value", "says"),
    [
        (ParameterInfo("k", "a", "", ("a", "[/x]")), "b", "matmul: k=b: one of a, [/x]"),
    ],
)
def test_a_choice_is_refused_with_the_choices(
    parameter: ParameterInfo, value: str, says: str
) -> None:
    from workloads.declare.workload import checked

    with pytest.raises(ParameterError) as caught:
        checked("matmul", parameter, value)
    assert str(caught.value) == says


def test_a_name_can_be_declared_once() -> None:
    with pytest.raises(ValueError, match="workload matmul: the name is taken"):

        @workload(group="g", title="t", about="a.", look_for="l.")
        def matmul(_on: object) -> Case:
            def timed() -> None:
                return None

            return Case(timed)


def test_a_parameter_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="n needs a rule and a default"):

        @workload(group="g", title="t", about="a.", look_for="l.")
        def lacks_a_rule(_on: object, n: int = 3) -> Case:
            def timed() -> int:
                return n

            return Case(timed)


def _forms() -> dict[str, Callable[..., Case]]:
    """Ways to say what is timed, by the code that is to be shown of each."""

    def shown_lambda(on: Place) -> Case:
        x = on.randn(4, 4)
        return Case(lambda: x @ x, flop=128)

    def in_lines(on: Place) -> Case:
        x = on.randn(4, 4)
        return Case(
            functools.partial(
                x.add,
                1,
            )
        )

    def by_name(on: Place) -> Case:
        x = on.randn(4, 4)

        def step() -> object:
            y = x + 1
            return y.sum()

        return Case(timed=step)

    def assigned(on: Place) -> Case:
        x = on.randn(4, 4)
        call = lambda: x.exp()  # noqa: E731
        return Case(call)

    def from_elsewhere(_on: Place) -> Case:
        return _made()

    return {
        "x @ x": shown_lambda,
        "functools.partial(\n    x.add,\n    1,\n)": in_lines,
        "y = x + 1\nreturn y.sum()": by_name,
        "x.exp()": assigned,
        "return _made()": from_elsewhere,
    }


def _made() -> Case:
    return Case(dict)


@pytest.mark.parametrize("shown", _forms())
def test_any_callable_is_timed_and_its_code_is_shown(shown: str) -> None:
    prepare = _forms()[shown]
    try:
        workload(group="g", title="t", about="a.", look_for="l.")(prepare)
        info = with_code(registered()[prepare.__name__])
    finally:
        forget(prepare.__name__)
    assert info.code == shown
    prepare(Place("cpu")).timed()


def test_what_cannot_be_called_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"not a Tensor: Case\(lambda: \.\.\.\)"):
        Case(Place("cpu").randn(2))  # type: ignore[arg-type]
