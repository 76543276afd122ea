"""Frozen dataclasses that cost little to define.

``dataclass(frozen=True)`` compiles six methods for each class; for the hundred classes here that is
45 ms of a start that is to be done in 280. :func:`fact` shares all but ``__init__``, and has that
compiled, and ``dataclass`` look at the class, when the first of it is made. What it makes is a
dataclass to ``fields``, ``replace`` and the type checker.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: object) -> object:
        """Only the type checker needs it."""
        return lambda decorator: decorator


C = TypeVar("C")

_NONE = dataclasses.MISSING


def _never_set(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _never_delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _equal(self: object, other: object) -> bool:
    if type(self) is not type(other):
        # Not False: the other class may know how to compare itself with this one.
        return NotImplemented  # type: ignore[no-any-return]
    return bool(self.__dict__ == other.__dict__)


def _hash(self: object) -> int:
    return hash((type(self), *self.__dict__.values()))


def _repr(self: object) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({values})"


_SHARED: dict[str, Any] = {
    "__setattr__": _never_set,
    "__delattr__": _never_delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
}


class _Fields:
    """Stands for ``__dataclass_fields__`` until somebody asks for them."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, _instance: object, _owner: type) -> dict[str, Any]:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(self._cls)
        found: dict[str, Any] = vars(made)["__dataclass_fields__"]
        return found


def _described(cls: type) -> dict[str, Any]:
    """By name, the default of each field: a value, a ``field``, or ``MISSING``."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        described = vars(base).get("__dataclass_fields__")
        if isinstance(described, _Fields):
            found.update(
                (name, vars(base).get(name, _NONE))
                for name, kind in base.__annotations__.items()
                if not str(kind).startswith("ClassVar")
            )
        elif described is not None:
            found.update(described)
    return found


def _init_of(cls: type) -> Any:
    """Takes the arguments that one of ``dataclass`` would take, and fills the instance at once."""
    names: dict[str, Any] = {"__MISSING": _NONE}
    parameters, lines = ["__self"], ["__own = __self.__dict__"]
    for name, default in _described(cls).items():
        given = isinstance(default, dataclasses.Field)
        factory = default.default_factory if given else _NONE
        first = default.default if given else default
        parameter = value = name
        if first is not _NONE:
            parameter = f"{name} = __default_{name}"
            names[f"__default_{name}"] = first
        elif factory is not _NONE:
            parameter = f"{name} = __MISSING"
            value = f"__new_{name}() if {name} is __MISSING else {name}"
            names[f"__new_{name}"] = factory
        parameters.append(parameter)
        lines.append(f"__own[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("__self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines)
    # The names of fields are all that is put into it, as in what ``dataclass`` compiles.
    exec(text, names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


_WAITING: set[Any] = set()
"""Classes whose ``__init__`` nobody has called yet."""


def _compile(cls: Any) -> None:
    cls.__init__ = _init_of(cls)
    _WAITING.discard(cls)


def compile_waiting() -> None:
    """Compile what is left, for those who must know that nothing is compiled from here on."""
    for cls in tuple(_WAITING):
        _compile(cls)


def _compiled_when_called(cls: Any) -> Any:
    def compile_and_call(self: object, *arguments: Any, **named: Any) -> None:
        _compile(cls)
        cls.__init__(self, *arguments, **named)

    _WAITING.add(cls)
    return compile_and_call


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def fact(cls: type[C]) -> type[C]:
    """Make a frozen dataclass of a class: equal by value, hashable if its fields are."""
    if cls.__doc__ is None:
        # ``dataclass`` would write its signature there, a quarter of a millisecond's work.
        cls.__doc__ = cls.__name__
    made: Any = cls
    own = vars(cls)
    for name, method in {"__init__": _compiled_when_called(made), **_SHARED}.items():
        if name not in own:
            setattr(made, name, method)
    made.__dataclass_fields__ = _Fields(cls)
    return cls
