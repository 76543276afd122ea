"""Walk through all that a program can reach by name, to find the name of each tensor.

The walk begins with the variables of all threads' frames and the globals of all modules outside
torch and the standard library. It follows attributes, items, closures, queues, generators and the
frames in tracebacks. A collection's contents are attributed to the collection with the nearest
name. Every object is visited once.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import types
from collections import deque
from functools import lru_cache, partial
from queue import Queue
from typing import Any, Callable, Iterable, Iterator

from .code_files import is_generated, is_of_python, is_of_user
from .source_lines import nested_codes
from .tensors import (
    TensorReader,
    class_dict,
    inherits,
    instance_dict,
    module_of,
    mro,
    name_of,
    slots,
)
from .variable_codes import (
    codes_of,
    codes_of_class,
    codes_of_object,
    is_of_user_module,
    no_codes,
)

MOST_DEPTH = 24
SMALL = 16
"""Items of a dictionary or a list up to which each collection in it gets its own name."""
_OPTIMIZED = 0x1
"""``inspect.CO_OPTIMIZED``: the code of a function, whose ``f_locals`` is a copy."""
_PLAIN = frozenset(
    id(kind)
    for kind in (
        *(int, float, complex, bool, str, bytes, bytearray, type(None), range, slice),
        *(types.CodeType, types.BuiltinFunctionType, types.GetSetDescriptorType),
        *(types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
    )
)
"""Ids of classes whose objects cannot lead to a tensor. By id, here and below: a class's hash and
equality may be the program's."""
_MEMOIZED = type(lru_cache(None)(len))
_COLLECTIONS = {id(kind): kind for kind in (list, dict, tuple, set, frozenset, deque, Queue)}
_METHODS = frozenset(map(id, (types.FunctionType, classmethod, staticmethod, property)))
_VISITS = {
    id(types.FunctionType): "_function",
    id(types.GeneratorType): "_generator",
    id(types.CoroutineType): "_coroutine",
    id(types.FrameType): "_skip",
    id(types.ModuleType): "_skip",
    id(type): "_class",
    id(BaseException): "_exception",
}
"""The methods of :class:`Walk` that visit objects of a class."""


class VariablePlace:
    """A variable's place: its name, its owner, and the code that may assign it."""

    def __init__(
        self, name: str, scope: str, frame: Any, codes: Callable[[], Iterator[types.CodeType]]
    ) -> None:
        self.name = name
        self.scope = scope
        self.frame = frame
        """``(filename, line, function)`` of the variable's frame, or ``None``."""
        self.codes = codes

    def below(self, name: str) -> VariablePlace:
        """Return the place of a part of this variable."""
        return VariablePlace(name, self.scope, self.frame, self.codes)


class Holding:
    """A named collection of at most ``limit`` items (0: no limit) or object, and its tensors."""

    def __init__(self, place: VariablePlace, kind: str, length: int, limit: int = 0) -> None:
        self.place = place
        self.kind = kind
        self.length = length
        self.limit = limit
        self.tensors: list[Any] = []
        self._through: dict[str, int] = {}

    def pass_through(self, through: str, tensors: int) -> None:
        """Note the number of tensors that a kind of object leads to."""
        self._through[through] = self._through.get(through, 0) + tensors

    @property
    def through(self) -> str:
        """Return the kind of object that leads to most of the tensors; empty if none does."""
        most = max(self._through, key=self._through.__getitem__, default="")
        return most if most and 2 * self._through[most] >= len(self.tensors) else ""


class OutOfTimeError(Exception):
    """The walk has reached its limit."""


class Walk:
    """One walk over all reachable objects.

    Args:
        reader: reader of the device's tensors.
        torch: the module.
        most: largest number of objects to visit.
        deadline: time of ``time.thread_time``.
    """

    def __init__(self, reader: TensorReader, torch: Any, most: int, deadline: float) -> None:
        self.holdings: list[Holding] = []
        self.variables: list[tuple[VariablePlace, Any]] = []
        self.names: dict[int, str] = {}
        """Name of each module and optimizer, by id."""
        self.visited = 0
        self.omitted = ""
        """What was not visited for lack of time; empty if all was."""
        self.unreadable = 0
        """Number of objects that raised an error."""
        self.why_unreadable = ""
        """Class and error of the latest such object."""
        self.running: list[types.CodeType] = []
        """The code of the program's running functions."""
        self._hooks: list[tuple[VariablePlace, Any]] = []
        """The hooks of modules, whose closures are visited after everything with a better name."""
        self._handled = _handled_exceptions()
        self._reader = reader
        self._torch_folder = os.path.dirname(torch.__file__) + os.sep
        self._owners = (torch.nn.Module, torch.optim.Optimizer)
        self._most = most
        self._deadline = deadline
        self._seen: set[int] = set()

    # ---- the starting points ----

    def frames(self, frames: Iterable[types.FrameType]) -> None:
        """Visit the variables of frames, the program's before libraries'."""
        both = sorted(frames, key=lambda frame: not is_of_user(frame.f_code.co_filename))
        self.running += [frame.f_code for frame in both if is_of_user(frame.f_code.co_filename)]
        for frame in both:
            self._awaited(frame)
        for frame in both:
            # Variables in torch's own functions are the program's, or temporaries of the call, as
            # are those in code that torch.compile has generated.
            path = frame.f_code.co_filename
            if not path.startswith(self._torch_folder) and not is_generated(path):
                self._frame(frame, "local of %s()" % frame.f_code.co_name, "")

    def _awaited(self, frame: types.FrameType) -> None:
        """Visit the program's suspended coroutine that a library's frame runs, as asyncio's do."""
        if is_of_user(frame.f_code.co_filename):
            return
        names = frame.f_locals
        try:
            for value in list(names.values()):
                inner = value.cr_frame if type(value) is types.CoroutineType else None
                if inner is not None and is_of_user(inner.f_code.co_filename):
                    self._frame(inner, "local of %s()" % inner.f_code.co_name, "")
        finally:
            release_locals(names)

    def handled(self) -> None:
        """Visit the frames that exceptions keep alive while an except clause handles them.

        Call it last: what another name reaches has that name.
        """
        running = _running_frames()
        for error in self._handled:
            self._failed_frames(error, running)

    def last_failure(self) -> None:
        """Visit the frames that an interactive interpreter's latest exception keeps alive."""
        for name in ("last_exc", "last_value"):
            error = instance_dict(sys).get(name)  # type: ignore[union-attr]
            if isinstance(error, BaseException):
                place = VariablePlace("sys.%s" % name, "exception of a command", None, no_codes)
                self._failed_frames(error, _running_frames(), place)
                return

    def _failed_frames(
        self, error: BaseException, running: set[int], place: VariablePlace | None = None
    ) -> None:
        """Visit the frames of a traceback that are no longer running."""
        traceback = BaseException.__dict__["__traceback__"].__get__(error)
        handler, failed = None, []
        while traceback is not None:
            frame = traceback.tb_frame
            if id(frame) not in running:
                failed.append(frame)
            elif not failed:
                handler = frame
            traceback = traceback.tb_next
        if place is None:
            where = None if handler is None else _line_of(handler)
            name = name_of(type(error))
            place = VariablePlace(name, "exception being handled", where, no_codes)
        holding = Holding(place, "exception", len(failed))
        self.holdings.append(holding)
        for frame in failed:
            self._suspended(frame, place, holding, 0, "frames kept by tracebacks")

    def modules(self) -> None:
        """Visit the globals of modules, the program's before libraries'."""
        named = []
        for name, module in list(sys.modules.items()):
            if not inherits(type(module), types.ModuleType):
                continue
            names = instance_dict(module)
            path = names.get("__file__") if names is not None else None
            if name == "__main__" or (type(path) is str and not is_of_python(name, path)):
                named.append((not is_of_user(path or ""), name, path, names))
        named.sort(key=lambda entry: entry[:2])
        self._globals([entry for entry in named if not entry[0]])
        # Libraries have many objects, and the rest of the work needs time as well.
        deadline, now = self._deadline, time.thread_time()
        self._deadline = now + (deadline - now) / 2
        try:
            self._globals([entry for entry in named if entry[0]])
        except OutOfTimeError as error:
            self.omitted = "globals of libraries beyond %s" % error
        finally:
            self._deadline = deadline

    def owners(self, owners: list[Any]) -> None:
        """Visit objects that hold tensors without a name, under the names of their classes."""
        for owner in owners:
            name = "self" if _attributes_of(owner) else "unnamed"
            self._visit(owner, VariablePlace(name, "held by no variable", None, no_codes), None, 0)

    def hooks(self) -> None:
        """Visit the hooks of modules. Call it after the names: what another name reaches has it."""
        for place, registered in self._hooks:
            for hook in list(dict.values(registered)) if inherits(type(registered), dict) else ():
                name = getattr(hook, "__name__", "") if type(hook) is types.FunctionType else ""
                self._visit(hook, place.below(name or "%s's hook" % place.name), None, 0)

    def _globals(self, modules: list[Any]) -> None:
        for _, name, path, names in modules:
            shown = os.path.basename(path) if type(path) is str else name
            self._names(names or {}, "global of %s" % shown, None, partial(codes_of, names or {}))

    def _frame(self, frame: types.FrameType, scope: str, through: str) -> None:
        code = frame.f_code
        if not code.co_flags & _OPTIMIZED:
            if through or not _is_module_frame(frame):
                return
            # The globals of the running script: its frame supplies the line.
            name = os.path.basename(code.co_filename)
            codes = partial(codes_of, frame.f_globals, code)
            self._names(frame.f_globals, "global of %s" % name, _line_of(frame), codes)
            return
        names = frame.f_locals
        try:
            self._names(names, scope, _line_of(frame), partial(nested_codes, code))
        finally:
            release_locals(names)

    # ---- reachable objects ----

    def _names(
        self,
        names: Any,
        scope: str,
        frame: Any,
        codes: Callable[[], Iterator[types.CodeType]],
    ) -> None:
        # exec's globals may be of a subclass, whose own method is not called.
        items = dict.items(names) if inherits(type(names), dict) else names.items()
        for name, value in list(items):
            if type(name) is str and not (name.startswith("__") and name.endswith("__")):
                self._visit(value, VariablePlace(name, scope, frame, codes), None, 0)

    def _visit(self, value: Any, place: VariablePlace, into: Holding | None, depth: int) -> None:
        """Visit an object and its contents.

        Args:
            value: the object.
            place: the nearest name.
            into: the collection to which its tensors are attributed; ``None`` if the object has a
                name of its own.
            depth: distance from the variable.
        """
        kind = type(value)
        if id(kind) in _PLAIN or depth > MOST_DEPTH:
            return
        if self._reader.is_tensor_type(kind) and into is None:
            # Leave it unvisited: another collection may contain it as well, and then gets it.
            self.variables.append((place, value))
            return
        key = id(value)
        if key in self._seen:
            if self.names.get(key) == "self":
                # The frame of a method comes first; the program's own name says more.
                self.names[key] = place.name
            return
        self._seen.add(key)
        self.visited += 1
        if self.visited >= self._most:
            raise OutOfTimeError("%d objects" % self._most)
        if not self.visited & 1023 and time.thread_time() > self._deadline:
            raise OutOfTimeError("its time")
        if into is not None and self._reader.is_tensor_type(kind):
            into.tensors.append(value)
            return
        try:
            self._dispatch(kind, value, place, into, depth)
        except OutOfTimeError:
            raise
        except Exception as error:
            # One object that another thread changes, or an odd one, must not end the walk.
            self.unreadable += 1
            self.why_unreadable = "%s: %s" % (name_of(kind), name_of(type(error)))

    def _dispatch(
        self, kind: type, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        # By name: a table of bound methods would be a cycle, and keep all findings alive.
        for base in mro(kind):
            if id(base) in _COLLECTIONS:
                self._collect(base, value, place, into, depth)
            elif id(base) in _VISITS:
                getattr(self, _VISITS[id(base)])(value, place, into, depth)
            else:
                continue
            # A program's subclass has attributes beside its items.
            if kind is not base and base is not type and (attributes := _attributes_of(value)):
                self._attributes(value, attributes, place, into, depth)
            return
        self._object(value, place, into, depth)

    def _skip(self, value: Any, place: VariablePlace, into: Holding | None, depth: int) -> None:
        """Visit nothing: modules are visited by their own names, frames by their threads."""

    def _collect(
        self, base: type, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        items: list[tuple[Any, Any]]
        if base is dict:
            items = list(dict.items(value))
        elif base is Queue:
            inner = (instance_dict(value) or {}).get("queue")
            items = list(enumerate(deque.__iter__(inner))) if type(inner) is deque else []
        else:
            items = list(enumerate(base.__iter__(value)))  # type: ignore[attr-defined]
        if into is None:
            if len(items) <= SMALL and self._has_nameable_items(base, items):
                for key, item in items:
                    self._visit(item, place.below(_item_name(place.name, key)), None, depth + 1)
                return
            limit = _find_limit(base, value)
            kind = ("limited %s" if limit else "%s") % base.__name__
            into = Holding(place, kind, len(items), limit)
            self.holdings.append(into)
        for _, item in items:
            self._visit(item, place, into, depth + 1)

    def _has_nameable_items(self, base: type, items: list[tuple[Any, Any]]) -> bool:
        """Return whether the items are collections or objects that deserve a name each."""
        if base is not dict and base is not list and base is not tuple:
            return False
        kinds = [type(item) for _, item in items if id(type(item)) not in _PLAIN]
        return bool(kinds) and not any(
            self._reader.is_tensor_type(kind) or kind is tuple or kind is types.FunctionType
            for kind in kinds
        )

    def _function(self, value: Any, place: VariablePlace, into: Holding | None, depth: int) -> None:
        if into is None:
            place = VariablePlace(
                place.name, "closure of %s()" % value.__name__, place.frame, place.codes
            )
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or ()):
            try:
                item = cell.cell_contents
            except ValueError:
                continue  # empty
            self._visit(item, place.below(name), into, depth + 1)
        for item in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self._visit(item, place, into, depth + 1)
        names_of = instance_dict(value)
        for name, item in list((names_of or {}).items()):
            if name != "__wrapped__":
                self._visit(item, place.below("%s.%s" % (place.name, name)), into, depth + 1)

    def _class(self, value: Any, place: VariablePlace, _into: Holding | None, depth: int) -> None:
        names = class_dict(value)
        if not is_of_user_module(module_of(value)):
            return
        own = name_of(value)
        shown, codes = "attribute of class %s" % own, partial(codes_of_class, value)
        for name, item in list(names.items()):
            if type(name) is str and id(type(item)) not in _METHODS:
                name = "%s.%s" % (own, name)
                self._visit(item, VariablePlace(name, shown, place.frame, codes), None, depth + 1)

    def _exception(
        self, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        if into is None:
            if any(value is error for error in self._handled):
                return  # its except clause holds it
            into = Holding(place, "stored exception", 1)
            self.holdings.append(into)
        traceback = BaseException.__dict__["__traceback__"].__get__(value)
        while traceback is not None:
            frame = traceback.tb_frame
            if id(frame) not in self._seen:
                self._seen.add(id(frame))
                self._suspended(frame, place, into, depth, "frames kept by tracebacks")
            traceback = traceback.tb_next
        for name in ("__cause__", "__context__"):
            other = BaseException.__dict__[name].__get__(value)
            if other is not None:
                self._visit(other, place, into, depth + 1)
        for argument in BaseException.__dict__["args"].__get__(value):
            self._visit(argument, place, into, depth + 1)

    def _generator(
        self, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        self._suspended(value.gi_frame, place, into, depth, "unfinished generators")

    def _coroutine(
        self, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        self._suspended(value.cr_frame, place, into, depth, "unfinished coroutines")

    def _suspended(
        self, frame: Any, place: VariablePlace, into: Holding | None, depth: int, through: str
    ) -> None:
        """Visit the variables of a suspended frame."""
        if frame is None or not frame.f_code.co_flags & _OPTIMIZED:
            return
        before = 0 if into is None else len(into.tensors)
        names = frame.f_locals
        try:
            for name, item in list(names.items()):
                # The variables of a single frame use their own names.
                below = place if into is not None else place.below(name)
                self._visit(item, below, into, depth + 1)
        finally:
            release_locals(names)
        if into is not None:
            into.pass_through(through, len(into.tensors) - before)

    def _object(self, value: Any, place: VariablePlace, into: Holding | None, depth: int) -> None:
        """Visit an instance's attributes; for a C type, its referents of the garbage collector."""
        kind = type(value)
        if any(inherits(kind, owner) for owner in self._owners):
            self.names.setdefault(id(value), place.name)
        attributes = _attributes_of(value)
        if attributes:
            self._attributes(value, attributes, place, into, depth)
        if (
            kind is partial
            or kind is _MEMOIZED
            or (not attributes and module_of(kind).partition(".")[0] != "torch")
        ):
            self._referents(value, place, into, depth)

    def _attributes(
        self,
        value: Any,
        attributes: list[tuple[str, Any]],
        place: VariablePlace,
        into: Holding | None,
        depth: int,
    ) -> None:
        kind, here = type(value), place
        if into is None:
            name = name_of(kind) if place.name == "self" else place.name
            codes = partial(codes_of_object, kind, place.codes)
            here = VariablePlace(name, "attribute of %s" % name_of(kind), place.frame, codes)
            tensors = [name for name, item in attributes if self._reader.is_tensor_type(type(item))]
            if len(tensors) > SMALL:
                into = Holding(here, "object", len(tensors))
                self.holdings.append(into)
        for name, item in attributes:
            if name == "_modules" and into is None and type(item) is dict and len(item) <= SMALL:
                for key, child in list(item.items()):
                    below = here.below(_child_name(here.name, key))
                    self._visit(child, below, None, depth + 1)
                continue
            if name.endswith("_hooks") and inherits(kind, self._owners[0]):
                self._hooks.append((here, item))
                continue
            below = here.below("%s.%s" % (here.name, name)) if into is None else here
            self._visit(item, below, into, depth + 1)

    def _referents(
        self, value: Any, place: VariablePlace, into: Holding | None, depth: int
    ) -> None:
        """Visit the garbage collector's referents of a C object, such as a memoized function."""
        referents = gc.get_referents(value)
        if into is None and any(type(referent) is dict for referent in referents):
            length = sum(len(referent) for referent in referents if type(referent) is dict)
            into = Holding(place, "cache", length)
            self.holdings.append(into)
        for referent in referents:
            self._visit(referent, place, into, depth + 1)


def _running_frames() -> set[int]:
    """Return the ids of this thread's frames."""
    running: set[int] = set()
    frame: Any = sys._getframe()
    while frame is not None:
        running.add(id(frame))
        frame = frame.f_back
    return running


def _handled_exceptions() -> list[BaseException]:
    """Return the exception that this thread handles and the contexts in which it was raised."""
    errors: list[BaseException] = []
    error: Any = sys.exc_info()[1]
    while isinstance(error, BaseException) and not any(error is known for known in errors):
        errors.append(error)
        error = BaseException.__dict__["__context__"].__get__(error)
    return errors


def _find_limit(base: type, value: Any) -> int:
    """Return the most items of a deque or a queue; 0 for no limit or another collection."""
    if base is deque:
        return deque.__dict__["maxlen"].__get__(value) or 0
    most = (instance_dict(value) or {}).get("maxsize") if base is Queue else 0
    return most if type(most) is int and most > 0 else 0


def _attributes_of(value: Any) -> list[tuple[str, Any]]:
    return [*(instance_dict(value) or {}).items(), *slots(value)]


def release_locals(names: Any) -> None:
    """Release the references that reading a function's variables has added to its frame.

    Until 3.12 ``f_locals`` is a dictionary that the frame keeps, so its values would live until the
    function returns: a recovered OOM would free less. It is emptied if it has no other owner; the
    next read fills it again. From 3.13 on it is a view.
    """
    if type(names) is dict and sys.getrefcount(names) <= _OF_ONE_OWNER:
        names.clear()


def _references_of_one_owner() -> int:
    """Return the references that ``release_locals`` counts for one owner; versions differ."""

    def counted(names: Any) -> int:
        return sys.getrefcount(names)

    frame: list[dict[str, Any]] = [{}]
    names = frame[0]
    return counted(names)


_OF_ONE_OWNER = _references_of_one_owner()


# ---- places ----


def _is_module_frame(frame: types.FrameType) -> bool:
    return frame.f_code.co_name == "<module>" and frame.f_locals is frame.f_globals


def _line_of(frame: types.FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name


def _item_name(name: str, key: Any) -> str:
    return (
        "%s[%s]" % (name, repr(key[:40]) if type(key) is str else key)
        if (type(key) is str or type(key) is int)
        else "%s[...]" % name
    )


def _child_name(name: str, key: Any) -> str:
    """Return the name of a module's child: ``net[0]`` of a list, ``net.encoder`` of a module."""
    named = type(key) is str and not key.isdigit()
    return "%s.%s" % (name, key) if named else "%s[%s]" % (name, key)
