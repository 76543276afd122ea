"""Frozen dataclasses that cost little to define.

``dataclass(frozen=True)`` compiles six functions for each class. For the hundred classes of a start
that takes six times as long as what :func:`frozen` does: it compiles ``__init__`` alone, and all
classes share the other methods. What it makes is a dataclass to ``fields``, ``replace`` and the
type checker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: object) -> object:
        """Only the type checker needs it."""
        return lambda decorator: decorator


C = TypeVar("C")


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


def _init_of(cls: Any) -> Callable[..., None]:
    """Compile the ``__init__`` of a dataclass; it fills the instance past ``__setattr__``."""
    names: dict[str, Any] = {"__MISSING": dataclasses.MISSING}
    parameters, values = ["__self"], []
    for field in dataclasses.fields(cls):
        name = field.name
        parameter = value = name
        if field.default is not dataclasses.MISSING:
            parameter = f"{name}=__default_{name}"
            names[f"__default_{name}"] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            parameter = f"{name}=__MISSING"
            value = f"__new_{name}() if {name} is __MISSING else {name}"
            names[f"__new_{name}"] = field.default_factory
        parameters.append(parameter)
        values.append(f"{name}={value}")
    text = f"def __init__({', '.join(parameters)}):\n __self.__dict__.update({', '.join(values)})"
    if hasattr(cls, "__post_init__"):
        text += "\n __self.__post_init__()"
    # The names of fields are all that is put into it, as in what ``dataclass`` compiles.
    exec(text, names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[C]) -> type[C]:
    """Make a frozen dataclass of a class: equal by value, hashable if its fields are.

    A method that the class itself defines is kept. Fields are arguments of ``__init__`` by place
    and by name; ``field(init=False)``, ``InitVar`` and ``KW_ONLY`` are not supported.
    """
    if cls.__doc__ is None:
        # ``dataclass`` would write its signature there, a quarter of a millisecond's work.
        cls.__doc__ = cls.__name__
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    own = vars(cls)
    for name, method in {"__init__": _init_of(made), **_SHARED}.items():
        if name not in own:
            setattr(made, name, method)
    return cls
