"""The owners of objects without a name: those of iterators, and of reference cycles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from workloads.agent.owners import find_owners


class Held:
    """An object of a program, as a tensor is."""


class Images:
    def __init__(self, number: int) -> None:
        self.cache = {index: Held() for index in range(number)}

    def __iter__(self) -> Iterator[Held]:
        yield from self.cache.values()


class Record:
    def __init__(self) -> None:
        self.value = Held()


class Records:
    def __init__(self, number: int) -> None:
        self.all = [Record() for _ in range(number)]


def owners(objects: list[Any]) -> list[Any]:
    return find_owners(objects, [objects], time.thread_time() + 60)


@pytest.mark.parametrize("number", [1, 100])
def test_the_object_that_holds_a_collection_is_found(number: int) -> None:
    images = Images(number)
    assert any(owner is images for owner in owners([*images.cache.values()]))


def test_many_objects_of_one_class_are_left_for_the_one_that_holds_them() -> None:
    records = Records(100)
    found = owners([record.value for record in records.all])
    assert any(owner is records for owner in found)
    assert not any(isinstance(owner, Record) for owner in found)


def test_no_search_begins_after_the_deadline() -> None:
    images = Images(3)
    objects = list(images.cache.values())
    assert find_owners(objects, [objects], time.thread_time() - 1) == []
