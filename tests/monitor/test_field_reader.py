"""How a device is asked for its fields, without NVML."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any

import pytest

from tui.monitor.device_reader import DeviceReader, find_absent_paths
from tui.monitor.field_reader import FieldReader, NvmlQuery, find_queries
from tui.monitor.messages import Clocks, Device
from tui.monitor.nvml import GONE, PERMANENT, REASONS, Code, DeviceGoneError, NoAnswer
from tui.monitor.processes import ProcessOwners


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


def reader(
    binding: Binding, on_answer: Callable[[], None] = lambda: None, instance: bool = False
) -> FieldReader:
    return FieldReader(binding, "handle", on_answer, instance)


@pytest.mark.parametrize("code", sorted(PERMANENT))
def test_a_permanent_refusal_is_asked_for_once(code: Code) -> None:
    binding = Binding(get=[code])
    fields = reader(binding)

    assert [fields.query("it", ("get",)) for _ in range(3)] == [NoAnswer(REASONS[code], code)] * 3
    assert binding.asked == ["get"]

    fields.forget_refusals()
    fields.query("it", ("get",))
    assert binding.asked == ["get", "get"]


def test_a_passing_refusal_is_asked_for_again() -> None:
    fields = reader(Binding(get=[Code.TIMEOUT, Code.UNKNOWN, 7]))

    assert [fields.query("it", ("get",)) for _ in range(3)][2] == 7


@pytest.mark.parametrize("code", sorted(GONE))
def test_a_device_that_is_gone_is_no_absence_but_an_end(code: Code) -> None:
    with pytest.raises(DeviceGoneError):
        reader(Binding(get=[code])).query("it", ("get",))


def test_a_null_handle_is_refused_before_any_call() -> None:
    with pytest.raises(DeviceGoneError, match="no handle"):
        FieldReader(Binding(), None, lambda: None)


def test_the_way_that_works_is_remembered() -> None:
    binding = Binding(new=[Code.FUNCTION_NOT_FOUND], old=[7])
    fields = reader(binding)

    assert [fields.query("it", ("new",), ("old",)) for _ in range(2)] == [7, 7]
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
    answer = reader(Binding(new=[first], old=[second])).query("it", ("new",), ("old",))

    assert answer.reason == "not supported by this device"


def test_a_passing_refusal_is_not_hidden_by_an_older_way() -> None:
    binding = Binding(new=[Code.TIMEOUT], old=[7])

    assert reader(binding).query("it", ("new",), ("old",)).code == Code.TIMEOUT
    assert binding.asked == ["new"]


def test_a_function_that_the_binding_lacks_is_named_as_such() -> None:
    assert "nvidia-ml-py is too old" in reader(Binding()).query("it", ("get",)).reason


def test_an_unknown_code_keeps_its_number_and_its_text() -> None:
    class Other(Binding):
        def get(self, _handle: Any) -> Any:
            raise NVMLError(31)

    assert reader(Other()).query("it", ("get",)).reason == "NVML: text of 31 (code 31)"


def test_each_answer_is_a_sign_of_life() -> None:
    answers: list[int] = []
    fields = reader(Binding(get=[Code.TIMEOUT, 1]), lambda: answers.append(1))
    fields.query("it", ("get",))
    fields.query("it", ("get",))

    assert len(answers) == 2


def test_that_nvml_is_not_initialised_is_noted() -> None:
    fields = reader(Binding(get=[Code.UNINITIALIZED]))
    assert not fields.uninitialized

    fields.query("it", ("get",))

    assert fields.uninitialized


def test_what_changes_slowly_is_asked_again_when_it_is_due() -> None:
    binding = Binding(get=[1, 2, 3])
    fields = reader(binding)
    found = []
    for slow_due in (True, False, False, True):
        fields.start_reading(slow_due)
        found.append(fields.query_if_due("it", ("get",)))

    assert found == [1, 1, 1, 2]


def test_what_never_changes_is_asked_until_it_is_known() -> None:
    binding = Binding(get=[Code.TIMEOUT, 1, 2])
    fields = reader(binding)
    for slow_due in (True, True, True):
        fields.start_reading(slow_due)
        found = fields.query_until_known("it", ("get",))

    assert found == 1
    assert len(binding.asked) == 2


@pytest.mark.parametrize(
    ("instance", "mig", "what", "reason"),
    [
        (False, True, "utilization", "not offered under MIG"),
        (False, True, "fan", "not supported by this device"),
        (False, None, "utilization", "not supported by this device"),
        (True, True, "fan", "not offered for a MIG instance"),
        (True, True, "utilization", "not offered for a MIG instance"),
        (True, True, "processes.graphics", "not supported by this device"),
    ],
)
def test_mig_is_the_reason_where_nvml_offers_a_field_to_whole_gpus_alone(
    instance: bool, mig: bool | None, what: str, reason: str
) -> None:
    fields = reader(Binding(get=[Code.NOT_SUPPORTED]), instance=instance)
    fields.mig = mig

    # Also where the refusal is remembered.
    assert [fields.query(what, ("get",)).reason for _ in range(2)] == [reason, reason]


def test_the_codes_are_those_of_the_installed_binding() -> None:
    pynvml = pytest.importorskip("pynvml")
    for code in Code:
        assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code


@dataclass(frozen=True)
class Figure:
    """A figure of a device that is one answer of NVML."""

    record: type
    prefix: str
    """Of its path in the device."""
    name: str
    how: NvmlQuery

    @property
    def path(self) -> str:
        return self.prefix + self.name


def plain_figures() -> Iterator[Figure]:
    hints = typing.get_type_hints(Device)
    parts: list[tuple[str, Any]] = [(f"{name}.", kind) for name, kind in hints.items()]
    for prefix, record in [("", Device), *(each for each in parts if is_dataclass(each[1]))]:
        for name, how in find_queries(record).items():
            yield Figure(record, prefix, name, how)


each_figure = pytest.mark.parametrize(
    "figure", [pytest.param(figure, id=figure.path) for figure in plain_figures()]
)


@each_figure
def test_a_figure_names_functions_that_the_binding_has_and_fits_their_answer(
    figure: Figure,
) -> None:
    pynvml = pytest.importorskip("pynvml")
    for function in figure.how.functions:
        inspect.signature(getattr(pynvml, function)).bind("handle", *figure.how.arguments)
    kinds: dict[str, tuple[Any, ...]] = {
        "number": (int | None, float | None),
        "milliwatts": (float | None,),
        "text": (str | None,),
    }
    assert typing.get_type_hints(figure.record)[figure.name] in kinds[figure.how.answer]


@each_figure
def test_a_figure_is_asked_for_as_often_as_it_says(figure: Figure) -> None:
    first = figure.how.functions[0]
    binding = Binding(**{first: [7]})
    fields = reader(binding)
    found = []
    for slow_due in (True, False, True):
        fields.start_reading(slow_due)
        found.append(fields.read_figures(figure.record, figure.prefix)[figure.name])

    assert found == [{"number": 7, "milliwatts": 0.007, "text": "7"}[figure.how.answer]] * 3
    # Another figure of the record may be an answer of the same function.
    sharing = [how for how in find_queries(figure.record).values() if how.functions[0] == first]
    times = {"always": 3, "if due": 2, "until known": 1}[figure.how.often]
    assert len(binding.asked) == times * len(sharing)


class Refusing(Binding):
    """Has no answer to anything but what it is given."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._function(name, [Code.TIMEOUT])


@each_figure
def test_a_device_has_a_figure_where_its_function_answers_and_else_the_reason(
    figure: Figure,
) -> None:
    def read(binding: Binding) -> Device:
        owners = ProcessOwners(own_pids=False)
        return DeviceReader(reader(binding), 0, owners, host_total=1).read(1.0, slow=True)

    device = read(Refusing(**{figure.how.functions[0]: [7]}))
    assert figure.path not in {*find_absent_paths(device), *device.unavailable}

    device = read(Refusing())
    assert figure.path in find_absent_paths(device)
    assert device.unavailable[figure.path] == REASONS[Code.TIMEOUT]


def test_what_a_function_takes_is_what_the_binding_calls_so() -> None:
    pynvml = pytest.importorskip("pynvml")
    assert find_queries(Clocks)["sm"].arguments == (pynvml.NVML_CLOCK_SM,)
    assert find_queries(Clocks)["memory"].arguments == (pynvml.NVML_CLOCK_MEM,)
    assert find_queries(Device)["temperature_c"].arguments == (pynvml.NVML_TEMPERATURE_GPU,)
    assert find_queries(Device)["ecc_uncorrected"].arguments == (
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    )
