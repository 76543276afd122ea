"""A program whose objects report any execution of their code; started by each Python.

The agent's walk takes it for out of memory halfway. It prints the executed code, and the objects of
the failed function that are still alive.
"""

# Its classes break the type checker's rules.
# mypy: ignore-errors

import gc
import os
import sys
import threading
import types
import weakref
from collections import deque
from queue import Queue

sys.path.insert(0, sys.argv[1])
from agent import reach, stacks

EXECUTED = []


def trap(name):
    def executed(*_words):
        EXECUTED.append(name)
        raise RuntimeError(name)

    return executed


NAMES = (
    *("__getattr__", "__getattribute__", "__hash__", "__eq__", "__iter__", "__len__", "__bool__"),
    *("__repr__", "__str__", "__contains__", "__getitem__", "__next__", "__dir__", "__reduce__"),
)
TRAPS = {name: trap(name) for name in NAMES}
TRAPS["__class__"] = property(trap("__class__"))
TRAPS["__dict__"] = property(trap("__dict__"))
SOME = {name: value for name, value in TRAPS.items() if name != "__dict__"}
METHODS = dict(SOME, items=trap("items"), get=trap("get"), values=trap("values"), keys=trap("keys"))


class Meta(type):
    __hash__ = trap("metaclass __hash__")
    __eq__ = trap("metaclass __eq__")
    __instancecheck__ = trap("__instancecheck__")
    __subclasscheck__ = trap("__subclasscheck__")
    __getattribute__ = trap("metaclass __getattribute__")


def kinds():
    """Yield classes derived from all types that the walk can visit."""
    bases = (object, dict, list, tuple, set, deque, Queue, Exception, types.ModuleType)
    for base in bases:
        yield type("Odd" + base.__name__, (base,), dict(METHODS))
        if base is not types.ModuleType:
            yield Meta("Meta" + base.__name__, (base,), {})
    yield type("NoDict", (object,), dict(TRAPS))


def make(kind):
    new = type.__dict__["__mro__"].__get__(kind)[1].__new__
    return new(kind, "odd") if issubclass_of_module(kind) else new(kind)


def issubclass_of_module(kind):
    return any(each is types.ModuleType for each in type.__dict__["__mro__"].__get__(kind))


class Thread(threading.Thread):
    """A thread that reports any access to its name or identifier."""

    ident = property(trap("ident"))
    name = property(trap("name"), lambda _self, _value: None)


class Tensor:
    """A substitute for a tensor."""


class Reader:
    """A substitute for the reader of tensors, which needs torch."""

    def is_tensor_type(self, kind):
        return kind is Tensor


TORCH = types.SimpleNamespace(
    __file__="/torch/__init__.py",
    nn=types.SimpleNamespace(Module=type("Module", (), {})),
    optim=types.SimpleNamespace(Optimizer=type("Optimizer", (), {})),
)


def take_stock():
    """Do the agent's work: the walk, and the stacks."""
    walk = reach.Walk(Reader(), TORCH, 1000000, float("inf"))
    for frames in stacks.frames_of_threads(threading.get_ident(), "agent"):
        walk.frames(frames)
    walk.modules()
    found = {holding.place.name: len(holding.tensors) for holding in walk.holdings}
    found.update((place.name, 1) for place, _ in walk.variables)
    threads = stacks.thread_stacks(threading.get_ident(), os.sep + "-")
    return found, walk.unreadable, walk.why_unreadable, len(threads)


def half(tensors):
    yield tensors
    yield None


def raise_with(tensors):
    raise ValueError(f"kept {len(tensors)}")


def caught(tensors):
    """Return an exception whose traceback refers to the frame that raised it, and no other."""
    try:
        raise_with(tensors)
    except ValueError as error:
        return error.with_traceback(error.__traceback__.tb_next)


# A frame refers to its callers': within a function, that would keep its variables alive.
KEPT = [caught([Tensor() for _ in range(20)])]
# The agent omits its own frames by the name of their module.
take_stock = types.FunctionType(take_stock.__code__, dict(globals(), __name__="agent.stock"))


def fail(alive):
    """Keep tensors alive in every way, run out of memory, and return."""
    single = Tensor()
    losses = [Tensor() for _ in range(20)]
    by_name = {str(number): [Tensor() for _ in range(20)] for number in range(3)}
    ring = deque(Tensor() for _ in range(5))
    waiting = Queue()
    waiting.put(Tensor())
    cell = [Tensor() for _ in range(20)]
    generator = half([Tensor() for _ in range(20)])
    next(generator)

    def closure():
        return cell

    odd = [make(kind) for kind in kinds()]
    held = (single, *losses, *ring, *cell)
    alive += [weakref.ref(each) for each in held]
    told = take_stock()
    assert odd
    assert by_name
    assert closure()
    return told


def main():
    """Run out of memory once, and report it in a line that a test compares."""
    go_on = threading.Event()
    thread = Thread(target=go_on.wait, daemon=True)
    thread.start()
    gc.collect()
    gc.disable()
    alive = []
    found, unreadable, why, threads = fail(alive)
    go_on.set()
    left = sum(each() is not None for each in alive)
    names = sorted(name for name in found if not name.startswith("odd"))
    told = {"executed": EXECUTED, "left": left, "names": names}
    print({**told, "unreadable": unreadable, "why": why})
    assert threads >= 2, threads


main()
