"""The code that may add to a variable: of its function, its module, or its object's class."""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Iterator

from .code_files import is_of_user
from .source_lines import nested_codes
from .tensors import class_dict, inherits, instance_dict, module_of, mro


def is_of_user_module(name: Any) -> bool:
    """Return whether a module, given by its name, is the program's own."""
    if name == "__main__":
        return True
    module = sys.modules.get(name) if type(name) is str else None
    names = instance_dict(module) if inherits(type(module), types.ModuleType) else None
    path = (names or {}).get("__file__")
    return type(path) is str and is_of_user(path)


def no_codes() -> Iterator[types.CodeType]:
    """Yield nothing: no code is known."""
    return iter(())


def codes_of(names: dict[str, Any], first: Any = None) -> Iterator[types.CodeType]:
    """Yield the code of a running module, and of the definitions in it."""
    if first is not None:
        yield from nested_codes(first)
        return
    for value in list(names.values()):
        if type(value) is types.FunctionType:
            yield from nested_codes(value.__code__)
        elif inherits(type(value), type) and is_of_user_module(module_of(value)):
            yield from codes_of_class(value)


def codes_of_class(kind: type) -> Iterator[types.CodeType]:
    """Yield the code of a class's methods, and of those that it inherits from the program's."""
    for base in mro(kind):
        if is_of_user_module(module_of(base)):
            for value in list(class_dict(base).values()):
                if type(value) is classmethod or type(value) is staticmethod:
                    value = value.__func__
                if type(value) is types.FunctionType:
                    yield from nested_codes(value.__code__)


def codes_of_object(
    kind: type, others: Callable[[], Iterator[types.CodeType]]
) -> Iterator[types.CodeType]:
    """Yield the code of an object's class, then other code."""
    yield from codes_of_class(kind)
    yield from others()
