"""``frozen`` makes what ``dataclass(frozen=True)`` makes."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    size: int = 3
    parts: tuple[float, ...] = ()
    table: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plain:
    name: str
    size: int = 3
    parts: tuple[float, ...] = ()
    table: dict[str, int] = field(default_factory=dict)


arguments = st.fixed_dictionaries(
    {"name": st.text()},
    optional={
        "size": st.integers(),
        "parts": st.lists(st.floats(allow_nan=False)).map(tuple),
        "table": st.dictionaries(st.text(), st.integers()),
    },
)


@given(arguments)
def test_it_holds_and_shows_what_a_dataclass_holds_and_shows(values: dict[str, object]) -> None:
    made, plain = Record(**values), Plain(**values)  # type: ignore[arg-type]  # any of the fields
    assert dataclasses.asdict(made) == dataclasses.asdict(plain)
    assert repr(made) == repr(plain).replace("Plain", "Record")


@given(arguments, arguments)
def test_it_is_equal_when_the_dataclass_is(one: dict[str, object], two: dict[str, object]) -> None:
    facts = [Record(**values) for values in (one, two)]  # type: ignore[arg-type]
    plains = [Plain(**values) for values in (one, two)]  # type: ignore[arg-type]
    assert (facts[0] == facts[1]) == (plains[0] == plains[1])


def test_equal_ones_have_the_same_hash_and_an_unhashable_field_has_none() -> None:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int

    assert hash(Point(1)) == hash(Point(1))
    assert len({Point(1), Point(1), Point(2)}) == 2
    with pytest.raises(TypeError):
        hash(Record("a"))


def test_another_class_with_the_same_fields_is_another() -> None:
    other: object = Plain("a")
    assert Record("a") != other


def test_nothing_can_be_set_or_deleted() -> None:
    made = Record("a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.name


def test_replace_makes_a_changed_copy() -> None:
    made = Record("a", 1)
    changed = dataclasses.replace(made, size=2)
    assert (made.size, changed.size, changed.name) == (1, 2, "a")


@pytest.mark.parametrize(
    ("values", "named", "why"),
    [
        ((), {}, "missing 1 required positional argument: 'name'"),
        (("a", 1, (), {}, "more"), {}, "takes from 2 to 5 positional arguments but 6 were given"),
        (("a",), {"name": "b"}, "multiple values for argument 'name'"),
        (("a",), {"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_wrong_arguments_are_refused(
    values: tuple[object, ...], named: dict[str, object], why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        Record(*values, **named)  # type: ignore[arg-type]


@given(arguments, st.integers(0, 4))
def test_arguments_by_place_and_by_name_are_the_same(values: dict[str, object], count: int) -> None:
    made = Record(**values)  # type: ignore[arg-type]  # any of the fields
    names = [each.name for each in dataclasses.fields(Record)]
    placed: Any = [getattr(made, name) for name in names[:count]]
    named: Any = {name: value for name, value in values.items() if name not in names[:count]}
    again = Record(*placed, **named)
    assert again == made
    assert repr(again) == repr(made)


def test_each_has_a_default_of_its_own() -> None:
    one, other = Record("a"), Record("a")
    assert one.table is not other.table


def test_what_is_derived_adds_its_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        name: str

        def __post_init__(self) -> None:
            object.__setattr__(self, "name", self.name.upper())

    @dataclass(frozen=True, slots=True)
    class Derived(Base):
        size: int = 0

    class Plainly(Derived):
        pass

    assert [each.name for each in dataclasses.fields(Derived)] == ["name", "size"]
    assert [each.name for each in dataclasses.fields(Base)] == ["name"]
    assert repr(Plainly("a", 1)).endswith("Plainly(name='A', size=1)")
    assert Derived("a") != Base("a")


def test_what_belongs_to_the_class_is_no_field() -> None:
    @dataclass(frozen=True, slots=True)
    class Marked:
        MARK: ClassVar[str] = "*"
        number: int

    assert repr(Marked(1)).endswith("Marked(number=1)")
    assert [each.name for each in dataclasses.fields(Marked)] == ["number"]


def test_it_is_a_dataclass_before_one_was_made() -> None:
    @dataclass(frozen=True, slots=True)
    class Late:
        number: int
        words: tuple[str, ...] = ()

    assert dataclasses.is_dataclass(Late)
    assert [each.name for each in dataclasses.fields(Late)] == ["number", "words"]


def test_a_method_of_its_own_is_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Loud:
        name: str

        def __repr__(self) -> str:
            return self.name.upper()

    assert repr(Loud("a")) == "A"
