"""Symbols of loaded libraries, against the dynamic linker's own answer; and memory of any kind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import until
from tui.allocators.layouts import ElfError, library_at, symbol_address
from tui.allocators.process_files import Mapping, ProcessFiles, library_in

NAMES = (b"malloc", b"environ", b"printf", b"getpid", b"qsort", b"strtod", b"fopen")


def test_symbols_are_where_the_dynamic_linker_has_them() -> None:
    files = ProcessFiles(os.getpid())
    try:
        read = files.open_memory().read
        mapped = library_in(files.read("maps"), b"libc.")
        if mapped is None:
            pytest.skip("this C library has another name")
        library = library_at(read, mapped.base)
        libc = ctypes.CDLL(mapped.path)
        for name in NAMES:
            # `malloc` and some others are chosen at run time: the linker gives what was chosen.
            expected = ctypes.addressof(ctypes.c_void_p.in_dll(libc, name.decode()))
            assert symbol_address(read, library, name) == expected
        assert symbol_address(read, library, b"no_such_symbol") is None
    finally:
        files.close()


def test_a_name_is_found_in_the_maps_wherever_the_file_lies() -> None:
    maps = (
        b"7f0000000000-7f0000001000 r-xp 00001000 fe:00 12 /x/libc10_cuda.so\n"
        b"7f1000000000-7f1000001000 r--p 00000000 fe:00 12   /a b/lib/libc10_cuda.so\n"
        b"7f2000000000-7f2000001000 r--p 00000000 fe:00 12   /b/libc10_cuda-1f.so.2 (deleted)\n"
    )
    assert library_in(maps, b"libc10_cuda") == Mapping(
        0x7F1000000000, "/a b/lib/libc10_cuda.so", deleted=False
    )
    gone = library_in(maps.splitlines(keepends=True)[2], b"libc10_cuda")
    assert gone == Mapping(0x7F2000000000, "/b/libc10_cuda-1f.so.2", deleted=True)
    assert library_in(maps, b"libc10_hip") is None
    # A library whose name only ends so, and a folder of that name, are none.
    others = (
        b"7f-8f r--p 00000000 fe:00 1 /libc10_cuda/my.so\n"
        b"7f-8f r--p 00000000 fe:00 1 /xlibc10_cuda.so\n"
    )
    assert library_in(others, b"libc10_cuda") is None


@given(st.binary(max_size=400), st.booleans())
def test_memory_of_any_kind_gives_an_answer_or_an_error_of_ours(data: bytes, elf: bool) -> None:
    memory = (b"\x7fELF\x02\x01" if elf else b"") + data

    def read(address: int, size: int) -> bytes:
        return memory[address : address + size] if address >= 0 else b""

    with contextlib.suppress(ElfError):
        symbol_address(read, library_at(read, 0), b"malloc")


def test_the_host_memory_of_a_process_that_has_ended_is_unknown_and_not_zero() -> None:
    with (
        subprocess.Popen(["sleep", "600"]) as child,
        contextlib.closing(ProcessFiles(child.pid)) as files,
    ):
        resident = files.resident()
        assert resident is not None
        assert resident > 0
        child.send_signal(signal.SIGKILL)
        until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        assert files.resident() is None
