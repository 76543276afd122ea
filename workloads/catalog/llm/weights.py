"""Load a model's weights: from a file to pinned host memory, and from there to the device."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared import safetensors
from workloads.catalog.shared.safetensors import StoredTensor
from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, by_device, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

SIZES = 64, 512
"""MiB of weights on the CPU and on a GPU."""
TENSORS = 16
CHUNK = 8 * 2**20
"""Bytes of each of the two buffers that take turns; large enough for the link's full rate."""
MOSTLY_DROPPED = 0.05
"""Share of the file that may stay in the page cache where a time is called cold."""
HOT, COLD = "hot", "cold"
NO_FADVISE = "this system has no posix_fadvise to ask for an empty page cache"


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A temporary safetensors file without a name: it is gone once closed, even after a kill."""

    file: FileIO
    checksums: dict[str, int]
    """CRC-32 of each tensor's bytes as written."""

    def read_header(self) -> tuple[int, tuple[StoredTensor, ...]]:
        """Return the position of the data in the file, and the tensors.

        Raises:
            ValueError: it is not a safetensors file.
        """
        size = os.fstat(self.file.fileno()).st_size
        self.file.seek(0)
        length = safetensors.header_length(self.file.read(safetensors.LENGTH_BYTES), size)
        start = safetensors.LENGTH_BYTES + length
        return start, safetensors.parse_header(self.file.read(length), size - start)

    def drop(self) -> None:
        """Ask the system to drop the file from its page cache; it may decline.

        Raises:
            OSError: the file cannot be written to its disk.
            AttributeError: the system has no such call; see :func:`can_drop`.
        """
        # Pages that are not on the disk yet would stay.
        os.fsync(self.file.fileno())
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def cached_share(self) -> float | None:
        """Return the share of the file's pages in the page cache, 0 to 1; ``None`` if unknown."""
        libc = ctypes.CDLL(None) if os.name == "posix" else None
        if libc is None or not hasattr(libc, "mincore"):
            return None
        size = os.fstat(self.file.fileno()).st_size
        pages = -(-size // mmap.PAGESIZE)
        pages_in_cache = (ctypes.c_ubyte * pages)()
        # The system keeps pages that a mapping has touched; this one touches none, and ends here.
        with mmap.mmap(self.file.fileno(), size) as mapped:
            first = ctypes.c_char.from_buffer(mapped)
            address = ctypes.c_void_p(ctypes.addressof(first))
            failed = libc.mincore(address, ctypes.c_size_t(size), pages_in_cache)
            del first
        return None if failed else sum(page & 1 for page in pages_in_cache) / pages


def can_drop() -> bool:
    """Return whether the system can be asked to drop a file from its page cache."""
    return hasattr(os, "posix_fadvise")


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return a contiguous CPU tensor's memory, to read and write; valid while the tensor lives."""
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def checksum_of(tensor: torch.Tensor) -> int:
    """Return the CRC-32 of a contiguous tensor's bytes, on whichever device it is."""
    in_host = tensor.cpu()  # named, so that it lives while its memory is read
    return zlib.crc32(bytes_of(in_host))


def write_weights(make: Callable[[int], torch.Tensor], size: int) -> WeightFile:
    """Write a temporary file with bfloat16 tensors.

    Args:
        make: returns so many random float32 numbers in host memory.
        size: bytes of all tensors, a multiple of 32.

    Raises:
        Skip: the disk has no room for it.
    """
    import torch

    numbers = size // 2 // TENSORS
    names = (f"layers.{index}.weight" for index in range(TENSORS))
    entries = safetensors.lay_out((name, "BF16", (numbers,)) for name in names)
    header = safetensors.encode_header(entries)
    folder = tempfile.gettempdir()
    needed, free = len(header) + size, shutil.disk_usage(folder).free
    if free < needed:
        raise Skip(_no_room(folder, needed, f"{free // 2**20} MiB are free"))
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (the run's cleanup closes it)
    checksums = {}
    try:
        _write(file, memoryview(header))
        for entry in entries:
            tensor = make(numbers).to(torch.bfloat16)
            content = bytes_of(tensor)
            checksums[entry.name] = zlib.crc32(content)
            _write(file, content)
        os.fsync(file.fileno())
    except OSError as error:
        file.close()
        raise Skip(_no_room(folder, needed, error.strerror or str(error))) from error
    except BaseException:
        file.close()
        raise
    return WeightFile(file, checksums)


def _no_room(folder: str, needed: int, why: str) -> str:
    return (
        f"cannot write {-(-needed // 2**20)} MiB to {folder}: {why}; set mib= to less, or TMPDIR "
        "to another folder"
    )


def _write(file: FileIO, content: memoryview) -> None:
    # One call writes at most 2 GiB.
    while content:
        content = content[file.write(content) :]


def tensors_of(data: torch.Tensor, entries: tuple[StoredTensor, ...]) -> dict[str, torch.Tensor]:
    """Return views of a file's data, a tensor of bytes, as the tensors in it."""
    import torch

    return {
        entry.name: data[entry.begin : entry.end].view(torch.bfloat16).view(entry.shape)
        for entry in entries
    }


@workload(
    group="llm",
    title="loading weights: disk to host to device",
    about="Reads a temporary file in the safetensors layout to pinned host memory and copies each "
    "tensor to the device. cache=cold first asks the system to drop the file from its page cache "
    "(fsync, then posix_fadvise), which is part of the time. On the CPU the copy is within host "
    "memory.",
    look_for="Cold, the disk decides; hot, a copy by the CPU and then the link, so compare both "
    "with the parts. Two buffers that take turns hide the shorter part behind the longer, and need "
    "little pinned memory. Mapping the file spares the read where it is cached, but its pages are "
    "pageable memory for the link.",
    devices=("cpu", "cuda", "mps"),
)
def load_weights(
    on: Place,
    mib: Annotated[int, whole(1, 65_536, "size of the weights, MiB", auto=by_device(SIZES))] = 0,
    cache: Annotated[str, one_of((HOT, COLD), "the file in the page cache")] = HOT,
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes
    from workloads.scripts.load_weights import read, to_device

    if cache == COLD and not can_drop():
        raise Skip(f"{NO_FADVISE}: set cache=hot")
    sizes = on.sizes(mib=(mib, SIZES))
    mib = sizes["mib"]
    size = mib * 2**20
    pinned = on.type == "cuda"
    # The buffer for all and the two that take turns; beside pinned memory, a pageable buffer.
    in_host = size + 2 * CHUNK
    if pinned:
        in_host = sum(map(pinned_bytes, (size, CHUNK, CHUNK))) + size
    in_host += size  # the file: the temporary folder may be in memory
    on.require(in_host + size if on.type == "cpu" else size, f"{mib} MiB of weights", host=in_host)
    weights = write_weights(on.host_randn, size)
    try:
        if cache == COLD and (reason := _reason_not_cold(weights)):
            raise Skip(reason)
        staging = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    except BaseException:
        weights.file.close()
        raise

    def timed(
        staging: torch.Tensor = staging, *, cold: bool = cache == COLD
    ) -> dict[str, torch.Tensor]:
        if cold:
            weights.drop()
        start, entries = weights.read_header()
        weights.file.seek(start)
        read(weights.file, staging)
        loaded = to_device(tensors_of(staging, entries), on.device)
        on.synchronize()  # the next read overwrites the memory that is copied
        return loaded

    def check() -> Check:
        loaded = timed()
        wrong = [
            name
            for name, checksum in weights.checksums.items()
            if checksum_of(loaded[name]) != checksum
        ]
        reference_name = (
            f"CRC-32 of the {len(weights.checksums)} tensors as written; the error counts them"
        )
        return Check(not wrong, float(len(wrong)), 0.0, reference_name)

    def study(study: Study) -> None:
        ways: dict[str, Callable[[], object]] = {
            "read, then copied": partial(timed, cold=False),
            "two buffers in turns": partial(_load_in_turns, weights, on),
            "mapped": partial(_load_mapped, weights, on),
        }
        if pinned:
            ways["read to pageable, then copied"] = lambda: timed(
                torch.empty(size, dtype=torch.uint8), cold=False
            )
        _parts(study, weights, on, staging)
        study.variants(HOT, "page cache hot", ways, per_call=(size, "byte/s"), clock="wall")
        _cold_ways(study, weights, ways, size)

    # The file's bytes are read and written by the host, then by the copy.
    crossings = 4 if on.type == "cpu" else 1
    return Case(
        timed,
        clock="wall",
        byte=crossings * size,
        byte_limit="memory" if on.type == "cpu" else "pcie",
        chosen=sizes,
        check=check,
        study=study,
        cleanup=weights.file.close,
    )


def _load_in_turns(weights: WeightFile, on: Place) -> dict[str, torch.Tensor]:
    """Load through two buffers: one is read into while the other is copied."""
    import torch

    from workloads.scripts.load_weights import read

    start, entries = weights.read_header()
    size = entries[-1].end
    pinned = on.type == "cuda"
    buffers = [torch.empty(CHUNK, dtype=torch.uint8, pin_memory=pinned) for _ in range(2)]
    copied: list[torch.cuda.Event | None] = [None, None]
    data = torch.empty(size, dtype=torch.uint8, device=on.device)
    weights.file.seek(start)
    for index, begin in enumerate(range(0, size, CHUNK)):
        part = buffers[index % 2][: min(CHUNK, size - begin)]
        event = copied[index % 2]
        if event is not None:
            event.synchronize()
        read(weights.file, part)
        data[begin : begin + len(part)].copy_(part, non_blocking=pinned)
        if pinned:
            copied[index % 2] = torch.cuda.current_stream(on.device).record_event()
    on.synchronize()
    return tensors_of(data, entries)


def _load_mapped(weights: WeightFile, on: Place) -> dict[str, torch.Tensor]:
    """Load from a mapping of the file, as the safetensors library does."""
    import torch

    start, entries = weights.read_header()
    # A private mapping that could be written to: torch warns of read-only memory.
    mapped = mmap.mmap(weights.file.fileno(), 0, access=mmap.ACCESS_COPY)
    data = torch.frombuffer(mapped, dtype=torch.uint8, offset=start)
    loaded = {
        name: tensor.to(on.device, copy=True) for name, tensor in tensors_of(data, entries).items()
    }
    on.synchronize()
    return loaded


def _parts(study: Study, weights: WeightFile, on: Place, staging: torch.Tensor) -> None:
    import torch

    from workloads.scripts.load_weights import read

    start, _ = weights.read_header()
    on_device = torch.empty_like(staging, device=on.device)

    def read_hot() -> None:
        weights.file.seek(start)
        read(weights.file, staging)

    def copy() -> None:
        on_device.copy_(staging, non_blocking=True)

    size = staging.nbytes
    study.figure("read_hot", size / study.time(read_hot, "wall"), "byte/s", "from the page cache")
    about = "from host memory to the device, in one copy"
    study.figure("to_device", size / study.time(copy, "wall"), "byte/s", about)
    about = (
        "from the disk, or from what caches it below this system; asking for the drop is part of "
        "the time"
    )
    reason = _reason_not_cold(weights)
    if reason is not None:
        study.absent("read_cold", reason, "byte/s", about)
        return

    def read_cold() -> None:
        weights.drop()
        read_hot()

    study.figure("read_cold", size / study.time(read_cold, "wall"), "byte/s", about)


def _reason_not_cold(weights: WeightFile) -> str | None:
    """Return why a load cannot be cold here; ``None`` if no reason is known."""
    if not can_drop():
        return NO_FADVISE
    weights.drop()
    share = weights.cached_share()
    if share is None or share <= MOSTLY_DROPPED:
        return None
    return (
        f"the system still caches {share:.0%} of the file in {tempfile.gettempdir()} after it was "
        "asked to drop it, as a file system in memory does; set TMPDIR to a folder on a disk"
    )


def _cold_ways(
    study: Study, weights: WeightFile, ways: dict[str, Callable[[], object]], size: int
) -> None:
    about = "of the file in the page cache, after the system was asked to drop it"
    reason = _reason_not_cold(weights)
    share = weights.cached_share()
    if share is None:
        why = "the system does not say; a drop is a request that it may decline"
        study.absent("still_cached", why, "%", about)
    else:
        study.figure("still_cached", 100 * share, "%", about)
    if reason is not None:
        study.log_line(f"no cold times: {reason}")
        return

    def cold(load: Callable[[], object]) -> object:
        weights.drop()
        return load()

    calls = {name: partial(cold, load) for name, load in ways.items()}
    study.variants(COLD, "page cache cold", calls, per_call=(size, "byte/s"), clock="wall")
