"""The walk over what a program can reach, with structures and classes that hypothesis makes up."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Queue
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.agent.reach import Holding, VariablePlace, Walk

TRAPPED = (
    *("__getattr__", "__getattribute__", "__hash__", "__eq__", "__iter__", "__len__", "__bool__"),
    *("__repr__", "__str__", "__contains__", "__getitem__", "__next__", "__dir__", "__reduce__"),
    *("__index__", "__call__", "__sizeof__", "__instancecheck__", "__length_hint__"),
    *("items", "keys", "values", "get", "queue", "__class__", "__enter__", "__format__"),
)
BASES = (object, dict, list, tuple, set, frozenset, deque, Exception, int, str)


class Tensor:
    """Stands for a tensor."""


class Reader:
    """Stands for the reader of a device's tensors."""

    def is_tensor_type(self, kind: type) -> bool:
        return kind is Tensor


TORCH = SimpleNamespace(
    __file__="/torch/__init__.py",
    nn=SimpleNamespace(Module=type("Module", (), {})),
    optim=SimpleNamespace(Optimizer=type("Optimizer", (), {})),
)


class World:
    """The objects of one example: the tensors in them, and the code that was executed."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.executed: list[str] = []
        self.armed = False

    def tensor(self) -> Tensor:
        self.tensors.append(Tensor())
        return self.tensors[-1]

    def trap(self, name: str) -> Callable[..., Any]:
        def executed(*_words: object) -> Any:
            if self.armed:
                self.executed.append(name)
            raise RuntimeError(name)

        return executed

    def odd_class(self, base: type, names: set[str], *, of_metaclass: bool) -> type:
        traps: dict[str, Any] = {
            name: property(self.trap(name)) if name == "__class__" else self.trap(name)
            for name in names
        }
        if not of_metaclass:
            return type("Odd", (base,), traps)
        kind = type("Meta", (type,), {"__hash__": type.__hash__, **traps})
        return type.__new__(kind, "Odd", (base,), {})


Make = Callable[[World], Any]
"""Makes an object in a world."""


def of_items(kind: Callable[[list[Any]], Any]) -> Callable[[list[Make]], Make]:
    return lambda makers: lambda world: kind([make(world) for make in makers])


def queue_of(items: list[Any]) -> Queue[Any]:
    queue: Queue[Any] = Queue()
    for item in items:
        queue.put(item)
    return queue


def object_of(items: list[Any]) -> SimpleNamespace:
    return SimpleNamespace(**{f"part_{number}": item for number, item in enumerate(items)})


def closure_of(items: list[Any]) -> Callable[[], Any]:
    return lambda: items


def generator_of(items: list[Any]) -> Iterator[Any]:
    def suspended() -> Iterator[Any]:
        yield items
        yield None

    generator = suspended()
    next(generator)
    return generator


def exception_of(items: list[Any]) -> Exception:
    try:
        raise ValueError(*items)
    except ValueError as error:
        return error.with_traceback(None)


def in_a_cycle(items: list[Any]) -> list[Any]:
    items.append(items)
    return items


def odd(drawn: tuple[type, set[str], bool, list[Make]]) -> Make:
    base, names, of_metaclass, makers = drawn

    def make(world: World) -> Any:
        kind = world.odd_class(base, names, of_metaclass=of_metaclass)
        made: Any = base.__new__(kind)  # type: ignore[call-overload]
        # The instance's own attributes: past whatever its class does with them.
        attributes = object.__getattribute__(made, "__dict__")
        for number, each in enumerate(makers):
            attributes[f"part_{number}"] = each(world)
        return made

    return make


PLAIN: st.SearchStrategy[Make] = st.sampled_from(
    [lambda world: world.tensor(), lambda _: 1, lambda _: "text", lambda _: None, lambda _: len]
)
SHAPES = (
    *(list, tuple, deque, queue_of, object_of, closure_of, generator_of, exception_of, in_a_cycle),
    lambda items: dict(enumerate(items)),
    lambda items: {str(number): item for number, item in enumerate(items)},
)


def deeper(inner: st.SearchStrategy[Make]) -> st.SearchStrategy[Make]:
    makers = st.lists(inner, max_size=4)
    plain = [makers.map(of_items(kind)) for kind in SHAPES]
    strange = st.tuples(
        st.sampled_from(BASES), st.sets(st.sampled_from(TRAPPED)), st.booleans(), makers
    )
    return st.one_of(*plain, strange.filter(_is_possible).map(odd))


def _is_possible(drawn: tuple[type, set[str], bool, list[Make]]) -> bool:
    # Of a class that no instance can be made of, nothing can be visited.
    _, names, of_metaclass, _ = drawn
    return not of_metaclass or not names & {"__call__", "__getattribute__"}


def suspended_in(root: Any) -> Iterator[Any]:
    yield root
    yield None


def walked(frame: Any) -> Walk:
    walk = Walk(Reader(), TORCH, 1_000_000, float("inf"))  # type: ignore[arg-type]
    walk.frames([frame])
    return walk


@settings(max_examples=300, deadline=None)
@given(st.recursive(PLAIN, deeper, max_leaves=25))
def test_every_tensor_is_found_once_and_no_code_of_the_program_is_executed(make: Make) -> None:
    world = World()
    program = suspended_in(make(world))
    next(program)
    frame = program.gi_frame  # type: ignore[attr-defined]
    gc.disable()
    try:
        before = [sys.getrefcount(each) for each in world.tensors]
        world.armed = True
        walk = walked(frame)
        world.armed = False
        collected = [id(each) for holding in walk.holdings for each in holding.tensors]
        found = {*collected, *(id(each) for _, each in walk.variables)}
        unreadable, why = walk.unreadable, walk.why_unreadable
        alive = weakref.ref(walk)
        del walk
        assert alive() is None
        after = [sys.getrefcount(each) for each in world.tensors]
    finally:
        world.armed = False
        gc.enable()
    assert world.executed == []
    assert (unreadable, why) == (0, "")
    assert len(collected) == len(set(collected))
    assert found == {id(each) for each in world.tensors}
    assert after == before


def test_what_leads_to_most_tensors_is_named() -> None:
    place = VariablePlace("futures", "local of main()", None, lambda: iter(()))
    holding = Holding(place, "list", 300)
    holding.tensors = [object()] * 100
    holding.pass_through("frames kept by tracebacks", 4)
    assert holding.through == ""
    holding.pass_through("frames kept by tracebacks", 50)
    assert holding.through == "frames kept by tracebacks"
