"""Frozen dataclasses that cost little to define.

``dataclass(frozen=True)`` compiles six methods for each class, half a millisecond of every start;
the hundred classes here would take 45 ms of a start that is to be done in 280. :func:`fact` shares
all but ``__init__``, and has that compiled when the first of a class is made. What it makes is a
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


def _set_once(self: object, name: str, value: object) -> None:
    # ``__init__`` sets each field for the first time; whoever sets one again is refused.
    if name in self.__dict__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    self.__dict__[name] = value


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
    "__setattr__": _set_once,
    "__delattr__": _never_delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
}


def _init_of(cls: type) -> Any:
    """What ``dataclass`` would have compiled for it."""
    described = [
        (
            each.name,
            Any,
            dataclasses.field(
                default=each.default,
                default_factory=each.default_factory,
                init=each.init,
                kw_only=each.kw_only,
            ),
        )
        for each in dataclasses.fields(cls)
    ]
    own = {name: getattr(cls, name) for name in ("__doc__", "__post_init__") if hasattr(cls, name)}
    made = dataclasses.make_dataclass(
        cls.__name__, described, namespace=own, repr=False, eq=False, match_args=False
    )
    return made.__dict__["__init__"]


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
    made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    for name, method in {"__init__": _compiled_when_called(made), **_SHARED}.items():
        if name not in vars(cls):
            setattr(made, name, method)
    return made
