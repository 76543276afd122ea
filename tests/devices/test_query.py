"""The one place where NVML is asked, without NVML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tui.devices.query import GONE, PERMANENT, REASONS, Absent, Asker, Code, DeviceGoneError


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"text of {value}")
        self.value = value


class Binding:
    """Answers each call with the next of what it was given: a value, or an NVML code to raise."""

    NVMLError = NVMLError

    def __init__(self, **answers: list[Any]) -> None:
        self.asked: list[str] = []
        for name, replies in answers.items():
            setattr(self, name, self._function(name, replies))

    def _function(self, name: str, replies: list[Any]) -> Callable[..., Any]:
        def function(*_arguments: Any) -> Any:
            self.asked.append(name)
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            if isinstance(reply, Code):
                raise NVMLError(reply)
            return reply

        return function


def asker(binding: Binding, beat: Callable[[], None] = lambda: None) -> Asker:
    return Asker(binding, "handle", beat)


@pytest.mark.parametrize("code", sorted(PERMANENT))
def test_a_permanent_refusal_is_asked_for_once(code: Code) -> None:
    binding = Binding(get=[code])
    ask = asker(binding)

    assert [ask.ask("it", ("get",)) for _ in range(3)] == [Absent(REASONS[code], code)] * 3
    assert binding.asked == ["get"]

    ask.forget()
    ask.ask("it", ("get",))
    assert binding.asked == ["get", "get"]


def test_a_passing_refusal_is_asked_for_again() -> None:
    ask = asker(Binding(get=[Code.TIMEOUT, Code.UNKNOWN, 7]))

    assert [ask.ask("it", ("get",)) for _ in range(3)][2] == 7


@pytest.mark.parametrize("code", sorted(GONE))
def test_a_device_that_is_gone_is_no_absence_but_an_end(code: Code) -> None:
    with pytest.raises(DeviceGoneError):
        asker(Binding(get=[code])).ask("it", ("get",))


def test_a_null_handle_is_refused_before_any_call() -> None:
    with pytest.raises(DeviceGoneError, match="no handle"):
        Asker(Binding(), None, lambda: None)


def test_the_way_that_works_is_remembered() -> None:
    binding = Binding(new=[Code.FUNCTION_NOT_FOUND], old=[7])
    ask = asker(binding)

    assert [ask.ask("it", ("new",), ("old",)) for _ in range(2)] == [7, 7]
    assert binding.asked == ["new", "old", "old"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Code.FUNCTION_NOT_FOUND, Code.NOT_SUPPORTED),
        (Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND),
    ],
)
def test_what_the_device_says_counts_more_than_a_missing_function(
    first: Code, second: Code
) -> None:
    answer = asker(Binding(new=[first], old=[second])).ask("it", ("new",), ("old",))

    assert answer.reason == "not supported by this device"


def test_a_passing_refusal_is_not_hidden_by_an_older_way() -> None:
    binding = Binding(new=[Code.TIMEOUT], old=[7])

    assert asker(binding).ask("it", ("new",), ("old",)).code == Code.TIMEOUT
    assert binding.asked == ["new"]


def test_a_function_that_the_binding_lacks_is_named_as_such() -> None:
    assert "nvidia-ml-py is too old" in asker(Binding()).ask("it", ("get",)).reason


def test_an_unknown_code_keeps_its_number_and_its_text() -> None:
    class Other(Binding):
        def get(self, _handle: Any) -> Any:
            raise NVMLError(31)

    assert asker(Other()).ask("it", ("get",)).reason == "NVML: text of 31 (code 31)"


def test_each_answer_is_a_sign_of_life() -> None:
    beats: list[int] = []
    ask = asker(Binding(get=[Code.TIMEOUT, 1]), lambda: beats.append(1))
    ask.ask("it", ("get",))
    ask.ask("it", ("get",))

    assert len(beats) == 2


def test_that_nvml_is_not_initialised_is_noted() -> None:
    ask = asker(Binding(get=[Code.UNINITIALIZED]))
    assert not ask.uninitialized

    ask.ask("it", ("get",))

    assert ask.uninitialized


def test_the_codes_are_those_of_the_installed_binding() -> None:
    pynvml = pytest.importorskip("pynvml")
    for code in Code:
        assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code
