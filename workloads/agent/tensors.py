"""Read the tensors of a foreign program: without its code, CUDA calls or new tensors.

``isinstance`` and ``getattr`` execute code of a program's classes: ``__class__`` properties,
``__getattr__``, ``__torch_function__``. So this module reads types by their real ``__mro__``, and
attributes by the descriptors of torch's own C class. It skips subclasses that dispatch in Python:
the tensor inside is a plain one, and is found as such.
"""

from __future__ import annotations

import types
from typing import Any, Iterator

_mro_of = type.__dict__["__mro__"].__get__
_dict_of_type = type.__dict__["__dict__"].__get__


def mro(kind: type) -> tuple[type, ...]:
    """Return the real method resolution order of a class."""
    return _mro_of(kind)  # type: ignore[no-any-return]


def inherits(kind: type, base: type) -> bool:
    """Return whether a class derives from another; ``in`` would execute a metaclass's code."""
    return any(ancestor is base for ancestor in mro(kind))


def class_dict(kind: type) -> Any:
    """Return the real dictionary of a class, read-only."""
    return _dict_of_type(kind)


def name_of(kind: type) -> str:
    """Return the name of a class."""
    return str(type.__dict__["__name__"].__get__(kind))


def module_of(kind: type) -> str:
    """Return the name of the module that defines a class; empty for a C class."""
    module = class_dict(kind).get("__module__")
    return module if type(module) is str else ""


def instance_dict(value: Any) -> dict[str, Any] | None:
    """Return an object's own attributes without executing its code; ``None`` without any."""
    for kind in mro(type(value)):
        descriptor = class_dict(kind).get("__dict__")
        if descriptor is None:
            continue
        # A module's is a member; a property would be the program's code.
        if type(descriptor) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            attributes = descriptor.__get__(value)
            return attributes if type(attributes) is dict else None
        return None
    return None


def slots(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of an object's ``__slots__`` that are set."""
    for kind in mro(type(value)):
        if not module_of(kind):
            continue
        for name, descriptor in list(class_dict(kind).items()):
            if type(descriptor) is types.MemberDescriptorType:
                try:
                    yield name, descriptor.__get__(value)
                except AttributeError:
                    pass  # not set


class TensorReader:
    """Reads the tensors of one device.

    Args:
        torch: the module, as imported by the process.
        device: index of the CUDA device.
    """

    def __init__(self, torch: Any, device: int) -> None:
        base = torch._C.TensorBase
        self._base = base
        self._tensor = torch.Tensor
        self._plain_dispatch = _function(class_dict(torch.Tensor).get("__torch_dispatch__"))
        self._device = device
        self._is_cow = getattr(torch._C, "_is_cow_tensor", None)
        self._get_device = base.get_device
        self._numel = base.numel
        self._is_cuda = class_dict(base)["is_cuda"].__get__
        self._storage = base.untyped_storage
        self._grad_fn = class_dict(base)["grad_fn"].__get__
        self._grad = class_dict(base)["grad"].__get__
        self._is_leaf = class_dict(base)["is_leaf"].__get__
        self._element_size = base.element_size
        self._dtype = class_dict(base)["dtype"].__get__
        self._shape = class_dict(base)["shape"].__get__
        self._kinds: dict[int, tuple[type, bool]] = {}
        """By id, as a metaclass may define a hash; a reference to the class keeps its id unique."""

    def is_tensor_type(self, kind: type) -> bool:
        """Return whether a class's objects are tensors readable without executing Python."""
        known = self._kinds.get(id(kind))
        if known is None:
            known = self._kinds[id(kind)] = kind, self._judge(kind)
        return known[1]

    def _judge(self, kind: type) -> bool:
        if not inherits(kind, self._tensor):
            return False
        for ancestor in mro(kind):
            dispatch = class_dict(ancestor).get("__torch_dispatch__")
            if dispatch is not None:
                return _function(dispatch) is self._plain_dispatch
        return True

    def storage(self, tensor: Any) -> tuple[int, int] | None:
        """Return the address and the size in bytes of a tensor's storage.

        Returns:
            ``None`` if it is on another device, has no storage, or shares one by copy-on-write,
            whose address cannot be read without copying it.
        """
        try:
            if not self._is_cuda(tensor) or self._get_device(tensor) != self._device:
                return None
            if self._is_cow is not None and self._is_cow(tensor):
                return None
            storage = self._storage(tensor)
            address, size = storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return None  # sparse, functional, freed
        return (address, size) if address and size else None

    def graph(self, tensor: Any) -> Any:
        """Return the autograd node that created a tensor; ``None`` without one."""
        try:
            return self._grad_fn(tensor)
        except (RuntimeError, NotImplementedError):
            return None

    def viewed(self, tensor: Any) -> int:
        """Return the bytes of a tensor's elements, fewer than its storage has for a view."""
        try:
            return int(self._numel(tensor)) * int(self._element_size(tensor))
        except (RuntimeError, NotImplementedError):
            return 0

    def gradient(self, tensor: Any) -> Any:
        """Return the gradient accumulated in a leaf; ``None`` without one."""
        try:
            return self._grad(tensor) if self._is_leaf(tensor) else None
        except (RuntimeError, NotImplementedError):
            return None

    def dtype(self, tensor: Any) -> str:
        """Return a tensor's type, such as ``float32``."""
        return str(self._dtype(tensor)).rpartition(".")[2]

    def elements(self, tensor: Any) -> int:
        """Return the number of a tensor's elements."""
        return int(self._numel(tensor))

    def shape(self, tensor: Any) -> list[int]:
        """Return the size of each dimension; empty for a nested tensor."""
        try:
            return [int(size) for size in tuple.__iter__(self._shape(tensor))]
        except (RuntimeError, NotImplementedError):
            return []  # nested


def _function(method: Any) -> Any:
    """Return a class method's underlying function, so that two can be compared."""
    return getattr(method, "__func__", method)
