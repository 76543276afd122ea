"""The figures of torch's caching allocator in another process, read from its memory.

``libc10_cuda`` exports a pointer to the allocator; the allocator has a vector of its devices, and
each device has its ``DeviceStats``. Their offsets in the objects differ by version, so this module
searches for them and accepts a place only if every number fits
(:mod:`tui.allocators.layouts`). It writes nothing, runs nothing in that process and does
not stop it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tui.allocators import layouts
from tui.allocators.layouts import (
    LAYOUTS,
    LONGEST,
    NOTHING,
    UNKNOWN_LAYOUT,
    DeviceStatsLayout,
    Numbers,
    counts_before,
    is_of_an_allocator,
    is_sound,
    may_have_been_reset,
    torch_memory,
    was_used,
)
from tui.allocators.messages import CPU_BUILD, NO_TORCH, NOT_USED_YET
from tui.allocators.process_files import (
    GoneError,
    Mapping,
    Memory,
    ProcessFiles,
    library_in,
)
from workloads.protocol.torch_memory import TorchMemory

LIBRARY = b"libc10_cuda"
"""The torch library with the allocator."""
_LIBRARY_OF_ANY_BUILD = b"libc10.so"
"""It lies beside :data:`LIBRARY`, which a CPU build lacks."""
_SYMBOL = b"_ZN3c104cuda20CUDACachingAllocator9allocatorE"
"""The symbol of the pointer to the allocator."""

_POINTER = struct.Struct("<Q")
_VECTOR = struct.Struct("<QQQ")
_IN_ALLOCATOR = 1 << 16
"""Bytes of the allocator in which to search its vector of devices."""
_VECTOR_AT = 22_584
"""Offset of the vector in torch 2.12.1 and 2.15.0, which is tried first."""
_STATS_AT = 40
"""Offset of ``DeviceStats`` in a device in all tested versions: behind a mutex."""
_IN_DEVICE = 1024
"""Bytes of a device in which its ``DeviceStats`` may begin."""
_MOST_DEVICES = 128
_TRIES = 60
"""The most attempts to read a device at one tick."""
_EQUAL_STARTS = 3
"""Readings at different times that must agree on the memory in use at a reset."""
_LONGEST_NAME = 200
_ADDRESSES = range(4096, 1 << 57, 8)

IN_CHANGE = "its figures changed during each reading: they are read again"
ASYNC = "it uses backend:cudaMallocAsync, for which torch itself counts nothing"
PLUGGABLE = "the program replaced torch's allocator, and its own reports no statistics"
ROCM_BUILD = "a ROCm build of torch: only CUDA's allocator is read"
_ADVICE = {
    NOT_USED_YET: "its figures come with its first tensor on a GPU",
    ASYNC: "start it without that setting in PYTORCH_CUDA_ALLOC_CONF; NVML's figure remains",
    PLUGGABLE: "NVML's figure remains",
    CPU_BUILD: "to use a GPU, install a CUDA build of torch",
    UNKNOWN_LAYOUT: "torch.cuda.memory_summary() within the program remains, and NVML's figure",
}
"""Advice by the reason."""
_WORDS = {
    NOT_USED_YET: "unused",
    IN_CHANGE: "changing",
    ASYNC: "async",
    PLUGGABLE: "plugged",
    CPU_BUILD: "cpu",
    ROCM_BUILD: "rocm",
    NO_TORCH: "no torch",
    UNKNOWN_LAYOUT: "layout",
}


class UnreadableError(Exception):
    """The figures are unreadable now; the text gives the reason."""

    @property
    def advice(self) -> str:
        """Advice; empty if nothing helps."""
        return _ADVICE.get(str(self), "")

    @property
    def word(self) -> str:
        """The reason in one word."""
        return _WORDS.get(str(self), "unread")


@dataclass(frozen=True)
class AllocatorAddress:
    """The place of the figures in a process."""

    vector_at: int
    devices: tuple[int, ...]
    """Addresses of the device objects, by ordinal."""
    stats_at: int
    layout: DeviceStatsLayout


@dataclass(frozen=True)
class AllocatorReading:
    """The result of one reading."""

    figures: tuple[TorchMemory, ...]
    """Sound figures of the devices that the process has used."""
    unavailable: dict[str, str]
    """Reasons for missing figures by device name; under ``""``, the reason if all are missing."""


class AllocatorReader:
    """Repeated reader of one process; its user must close it."""

    def __init__(self, files: ProcessFiles) -> None:
        """Open the process's memory.

        Args:
            files: of the process; :meth:`close` closes them too.

        Raises:
            OSError: the process may not be read.
            UnreadableError: torch's CUDA half is not in the process.
        """
        self.files = files
        self.library = library_of_torch(files.read("maps"))
        self.memory = files.open_memory()
        self.place: AllocatorAddress | None = None
        self.devices: tuple[DeviceStatsReader, ...] = ()

    def close(self) -> None:
        """Close the process's files."""
        self.files.close()

    def read(self, at: float) -> AllocatorReading:
        """Return the present figures.

        Args:
            at: Unix time of the reading.

        Raises:
            GoneError: the process has ended, or runs another program.
        """
        if self.files.start_ticks() != self.files.started:
            raise GoneError(f"pid {self.files.pid} is another process")
        if self.place is None:
            return AllocatorReading((), {"": NOT_USED_YET})
        figures, unavailable = [], {}
        for reader in self.devices:
            numbers = reader.read()
            if numbers is None:
                unavailable[f"cuda:{reader.ordinal}"] = IN_CHANGE
            elif was_used(numbers):
                figures.append(torch_memory(numbers, self.files.pid, reader.ordinal, at))
        if not figures and not unavailable:
            unavailable[""] = NOT_USED_YET
        return AllocatorReading(tuple(figures), unavailable)

    def locate(self) -> None:
        """Find the place of the figures, or check that it is still the same.

        Raises:
            UnreadableError: the figures are in no known place; the text gives the reason.
            GoneError: the process has ended, or runs another program.
        """
        if self.place is not None:
            if _pointers(self.memory, self.memory.read(self.place.vector_at, _VECTOR.size)) == (
                self.place.devices
            ):
                return
            self.place = None
        self.place = _find_allocator(self.memory, self.library.base)
        self.devices = tuple(
            DeviceStatsReader(
                self.memory, ordinal, address + self.place.stats_at, self.place.layout
            )
            for ordinal, address in enumerate(self.place.devices)
        )


class DeviceStatsReader:
    """Reader of the ``DeviceStats`` of one device."""

    def __init__(
        self, memory: Memory, ordinal: int, address: int, layout: DeviceStatsLayout
    ) -> None:
        self.ordinal = ordinal
        self._memory = memory
        self._address = address
        self._form = layout.form
        self._raw = b""
        self._numbers: Numbers | None = None
        self._broken: Numbers | None = None
        """The newest reading if it broke an invariant."""
        self._before = NOTHING
        self._other_start = NOTHING
        self._times_seen = 0

    def read(self) -> Numbers | None:
        """Return sound numbers, or ``None`` after too many attempts.

        Raises:
            GoneError: the process has ended, or runs another program.
        """
        for _ in range(_TRIES):
            numbers = self.try_once()
            if numbers is not None:
                return numbers
        if self._broken is not None:
            self._use_other_start(counts_before(self._broken))
        return None

    def try_once(self) -> Numbers | None:
        """Return one reading, or ``None`` if it breaks an invariant.

        Raises:
            GoneError: the process has ended, or runs another program.
        """
        raw = self._memory.read(self._address, self._form.size)
        if raw == self._raw and self._numbers is not None:
            return self._numbers
        self._broken = None
        if len(raw) != self._form.size:
            return None
        numbers = self._form.unpack(raw)
        if not is_sound(numbers, self._before):
            self._broken = numbers
            return None
        self._raw, self._numbers = raw, numbers
        self._times_seen = 0
        return numbers

    def _use_other_start(self, before: Numbers) -> None:
        """Detect a restart of the counts: the values at that moment are equal in all readings."""
        if before == NOTHING:
            self._before = NOTHING
        elif may_have_been_reset(before):
            self._times_seen = self._times_seen + 1 if before == self._other_start else 1
            self._other_start = before
            if self._times_seen >= _EQUAL_STARTS:
                self._before = before


def find_torch_library(maps: bytes) -> Mapping | None:
    """Return a library of torch, of a CPU build too, from the text of ``/proc/PID/maps``."""
    return library_in(maps, LIBRARY) or library_in(maps, _LIBRARY_OF_ANY_BUILD)


def library_of_torch(maps: bytes) -> Mapping:
    """Return the mapping of :data:`LIBRARY` from the text of ``/proc/PID/maps``.

    Raises:
        UnreadableError: the process has no such mapping.
    """
    library = library_in(maps, LIBRARY)
    if library is not None:
        return library
    if library_in(maps, b"libc10_hip") is not None:
        raise UnreadableError(ROCM_BUILD)
    if library_in(maps, b"libtorch_cpu") is not None:
        raise UnreadableError(CPU_BUILD)
    raise UnreadableError(NO_TORCH)


def _find_allocator(memory: Memory, base: int) -> AllocatorAddress:
    """Find the place of the figures.

    Raises:
        UnreadableError: the figures are in no known place; the text gives the reason.
        GoneError: the process has ended.
    """
    try:
        library = layouts.library_at(memory.read, base)
        address = layouts.symbol_address(memory.read, library, _SYMBOL)
    except layouts.ElfError as error:
        raise UnreadableError(f"torch's library cannot be read: {error}") from error
    if address is None:
        raise UnreadableError(UNKNOWN_LAYOUT)
    allocator = _pointer(memory, address)
    if not allocator:
        raise UnreadableError("torch is still being loaded")
    kind = _class_of(memory, allocator)
    if b"CudaMallocAsync" in kind:
        raise UnreadableError(ASYNC)
    if b"Pluggable" in kind:
        raise UnreadableError(PLUGGABLE)
    return _find_devices(memory, allocator)


def _find_devices(memory: Memory, allocator: int) -> AllocatorAddress:
    inside = memory.read(allocator, _IN_ALLOCATOR)
    words = struct.unpack(f"<{len(inside) // 8}Q", inside[: len(inside) // 8 * 8])
    places = [_VECTOR_AT // 8, *range(len(words) - 2)]
    used = False
    for word in places:
        devices = _pointers(memory, inside[8 * word : 8 * word + 24])
        if not devices:
            continue
        matches = _matches(memory, devices)
        if len(matches) == 1:
            ((stats_at, layout),) = matches
            return AllocatorAddress(allocator + 8 * word, devices, stats_at, layout)
        used = used or any(_has_numbers(memory.read(device, _STATS_AT + 96)) for device in devices)
    raise UnreadableError(UNKNOWN_LAYOUT if used else NOT_USED_YET)


def _pointers(memory: Memory, vector: bytes) -> tuple[int, ...]:
    """Return the pointers of a vector, or none if the bytes are no such vector."""
    if len(vector) != _VECTOR.size:
        return ()
    begin, end, capacity = _VECTOR.unpack(vector)
    count, rest = divmod(end - begin, 8)
    if rest or not 0 < count <= _MOST_DEVICES or capacity < end or begin not in _ADDRESSES:
        return ()
    content = memory.read(begin, 8 * count)
    if len(content) != 8 * count:
        return ()
    pointers = struct.unpack(f"<{count}Q", content)
    real = all(pointer in _ADDRESSES for pointer in pointers) and len(set(pointers)) == count
    return pointers if real else ()


def _matches(memory: Memory, devices: tuple[int, ...]) -> set[tuple[int, DeviceStatsLayout]]:
    """Return the offsets and layouts that fit the first device with conclusive numbers."""
    for device in devices:
        for _ in range(_TRIES):
            inside = memory.read(device, _IN_DEVICE + LONGEST)
            fitting = _find_fitting(inside)
            if fitting or not _has_numbers(inside):
                break
        if fitting:
            return fitting
    return set()


def _find_fitting(inside: bytes) -> set[tuple[int, DeviceStatsLayout]]:
    """Return the layouts that fit behind the mutex, else all that fit."""
    for places in (range(_STATS_AT, _STATS_AT + 1), range(0, _IN_DEVICE, 8)):
        fitting = {
            (place, layout)
            for layout in LAYOUTS
            for place in places
            if len(inside) >= place + layout.form.size
            and _fits(layout.form.unpack_from(inside, place))
        }
        if fitting:
            return fitting
    return set()


def _fits(numbers: Numbers) -> bool:
    if is_of_an_allocator(numbers):
        return True
    before = counts_before(numbers)
    return may_have_been_reset(before) and is_of_an_allocator(numbers, before)


def _has_numbers(inside: bytes) -> bool:
    """Return whether a device's assumed first array has counted anything.

    A device begins with a recursive mutex, whose kind lies 16 bytes into it (``pthread_mutex_t``).
    """
    return inside[16:20] == b"\1\0\0\0" and any(inside[_STATS_AT : _STATS_AT + 96])


def _pointer(memory: Memory, address: int) -> int:
    content = memory.read(address, _POINTER.size)
    return int(_POINTER.unpack(content)[0]) if len(content) == _POINTER.size else 0


def _class_of(memory: Memory, instance: int) -> bytes:
    """Return the mangled name of an object's class, from its run-time type information.

    The Itanium C++ ABI puts it before the functions of the table at the start of an object. The
    name is empty if there is none.
    """
    name = _pointer(memory, _pointer(memory, _pointer(memory, instance) - 8) + 8)
    return memory.read(name, _LONGEST_NAME).partition(b"\0")[0]
