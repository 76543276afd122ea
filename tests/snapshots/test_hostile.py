"""Files made to run code, to take all memory, to never end or to crash: none does."""

from __future__ import annotations

import copyreg
import gzip
import io
import json
import pickle
import signal
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.snapshots import raw
from tests.snapshots.apart import Outcome, assert_safe, read, read_alone
from tests.tiers import with_variants
from tui.snapshots.model.snapshot import SnapshotError
from tui.snapshots.read.load import load

MIB = 1 << 20
ALLOWED = 400 * MIB
INHERITED = 32 * MIB
"""What a fresh process may have mapped and not used: it counts as mapped already."""
SECONDS = 20.0
CODE = 0x7002


class Shell:
    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, ("exit 1",)


def nested(opcode: bytes, depth: int, start: bytes = b")") -> bytes:
    return b"\x80\x04" + start + opcode * depth


def many(opcode: bytes, count: int) -> bytes:
    return b"\x80\x04](" + opcode * count + b"e."


def bomb(levels: int) -> list[Any]:
    objects: list[Any] = ["x"]
    for _ in range(levels):
        objects = [objects, objects]
    return objects


def itself() -> dict[str, Any]:
    objects: dict[str, Any] = raw.snapshot()
    trace = objects["device_traces"][0]
    trace.append(trace)
    trace.append(objects)
    objects["segments"].append(objects)
    objects["allocator_settings"]["itself"] = objects
    trace[0]["frames"] = trace
    trace[1]["frames"] = [trace[1]["frames"], trace[1]]
    return objects


def aliased() -> dict[str, Any]:
    trace = [raw.entry("alloc", 1, 1, 0)] * 1000
    return {"segments": [raw.segment()], "device_traces": [trace] * 1000}


def contexts() -> dict[str, Any]:
    long = "x" * MIB
    entries = [
        raw.entry("alloc", 1, 1, 0, compile_context=long, user_metadata=str(n)) for n in range(9999)
    ]
    return {"segments": [], "device_traces": [entries]}


def with_frames(frames: Any) -> dict[str, Any]:
    objects = raw.snapshot()
    for entry in objects["device_traces"][0]:
        entry["frames"] = [dict(frame) for frame in frames]
    return objects


def settings(value: Any) -> dict[str, Any]:
    return {"segments": [], "device_traces": [], "allocator_settings": {"a": value}}


CODE_RUNNERS: dict[str, tuple[bytes, str]] = {
    "GLOBAL and REDUCE": (b"\x80\x02cos\nsystem\nX\x04\0\0\0trueR.", "asks for os.system"),
    "a class with __reduce__": (pickle.dumps(Shell(), 4), ".system, which would run code"),
    "STACK_GLOBAL": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "asks for os.system"),
    "STACK_GLOBAL of numbers": (b"\x80\x04K\x01K\x02\x93.", "damaged, or holds more than data"),
    "INST": (b"\x80\x02(X\x04\0\0\0trueios\nsystem\n.", "asks for os.system"),
    "a name with escapes": (b"\x80\x04\x8c\x02\x1b[\x8c\x01\n\x93.", "asks for \ufffd[. "),
    "a name of a megabyte": (
        b"\x80\x04X\0\0\x10\0" + b"a" * MIB + b"\x8c\x01b\x93.",
        "which would run code",
    ),
    "a registered extension code": (b"\x80\x02\x83\x02\x70.", "asks for collections.Counter"),
    "an extension code of four bytes": (
        b"\x80\x02\x84" + struct.pack("<i", CODE) + b".",
        "asks for collections.Counter",
    ),
    "an extension code of nobody": (b"\x80\x02\x82\x7f.", "unregistered extension code"),
    "a persistent id": (b"\x80\x02Psecret\n.", "persistent object, secret"),
    "a binary persistent id": (b"\x80\x02]Q.", "persistent object, a list"),
    "REDUCE on a string": (b"\x80\x02X\x01\0\0\0a)R.", "not callable"),
    "OBJ on a string": (b"\x80\x02(X\x01\0\0\0ao.", "not callable"),
    "NEWOBJ on a dict": (b"\x80\x02})\x81.", "must be a"),
    "NEWOBJ_EX on a dict": (b"\x80\x04})}\x92.", "must be a"),
    "BUILD on a dict": (b"\x80\x02}}X\x01\0\0\0aK\x01sb.", "has no attribute"),
    "BUILD with slots": (b"\x80\x02}N}X\x01\0\0\0aK\x01s\x86b.", "has no attribute"),
    "an out-of-band buffer": (b"\x80\x05\x97.", "buffers"),
}

# Made where they are tried: together they take a second and 400 MiB.
GREEDY: dict[str, Callable[[], bytes]] = {
    "a memo index of four billion": lambda: b"\x80\x04Kar\xff\xff\xff\xff.",
    "a memo index in the millions, often": lambda: (
        b"\x80\x04K\x01" + b"".join(b"r" + struct.pack("<I", n << 24) for n in range(1, 40)) + b"."
    ),
    "a text memo index": lambda: b"\x80\x02K\x01p99999999999999999999\n.",
    "BINBYTES8 of a petabyte": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 50) + b"a.",
    "BINBYTES8 of nearly all addresses": lambda: (
        b"\x80\x04\x8e" + struct.pack("<Q", (1 << 63) - 1) + b"a."
    ),
    "BYTEARRAY8 of ten gigabytes": lambda: b"\x80\x05\x96" + struct.pack("<Q", 10 << 30) + b"a.",
    "BINUNICODE8 of ten gigabytes": lambda: b"\x80\x04\x8d" + struct.pack("<Q", 10 << 30) + b"a.",
    "BINUNICODE of four gigabytes": lambda: b"\x80\x04X\xff\xff\xff\xffa.",
    "LONG4 of two gigabytes": lambda: b"\x80\x04\x8b\xff\xff\xff\x7fa.",
    "LONG4 of a negative length": lambda: b"\x80\x04\x8b\xff\xff\xff\xffa.",
    "LONG4 of ten megabytes": lambda: (
        b"\x80\x04\x8b" + struct.pack("<I", 10 * MIB) + b"\x7f" * 10 * MIB + b"."
    ),
    "LONG of ten million digits": lambda: b"\x80\x02L" + b"9" * 10_000_000 + b"L\n.",
    "INT of ten million digits": lambda: b"\x80\x02I" + b"9" * 10_000_000 + b"\n.",
    "FRAME of an exabyte": lambda: b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"].",
    "FRAME of ten gigabytes": lambda: b"\x80\x04\x95" + struct.pack("<Q", 10 << 30) + b"].",
    "ten million empty sets": lambda: many(b"\x8f", 10_000_000),
    "twenty million empty dicts": lambda: many(b"}", 20_000_000),
    "a line without an end": lambda: b"\x80\x02V" + b"a" * 20_000_000,
    "DUP ten million times": lambda: b"\x80\x02(]" + b"2" * 10_000_000 + b"l.",
    "MARK ten million times": lambda: b"\x80\x02" + b"(" * 10_000_000 + b".",
    "a gzip bomb of zeros in a string": lambda: gzip.compress(
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 29) + bytes(300 * MIB), 1
    ),
    "a gzip bomb of dicts": lambda: gzip.compress(b"\x80\x04](" + b"}" * 40_000_000, 1),
    "a JSON of empty lists": lambda: b"[" + b"[]," * 10_000_000 + b"[]]",
}
GREEDY_FIRST = {
    "a memo index of four billion",
    "FRAME of an exabyte",
    "LONG4 of a negative length",
    "BINBYTES8 of a petabyte",
    "a gzip bomb of dicts",
    "a JSON of empty lists",
}
"""One of each kind; the slow tests read the others."""

DEEP: dict[str, Callable[[], bytes]] = {
    "tuples, let go": lambda: nested(b"\x85", 2_000_000) + b"0].",
    "tuples, kept": lambda: nested(b"\x85", 2_000_000) + b".",
    "tuples of two": lambda: b"\x80\x02)" + b"N\x86" * 1_000_000 + b".",
    "lists": lambda: b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
    "dicts": lambda: b"\x80\x02" + b"}N" * 500_000 + b"N" + b"s" * 500_000 + b".",
    "frozensets": lambda: b"\x80\x04N" + b"(" + b"\x91" + b".",
    "a tuple as an entry's context": lambda: (
        b"\x80\x04}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]"
        + b"](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x01X\x04\0\0\0sizeK\x01"
        + b"X\x0f\0\0\0compile_context)"
        + b"\x85" * 1_000_000
        + b"ueau."
    ),
    "JSON lists": lambda: b"[" * 1_000_000,
    "JSON objects": lambda: b'{"segments":' * 300_000,
    "JSON lists inside a snapshot": lambda: (
        b'{"segments": [], "device_traces": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
}

CRAFTED: dict[str, Callable[[], bytes]] = {
    "a snapshot that holds itself": lambda: pickle.dumps(itself(), 4),
    "a trace named a thousand times": lambda: pickle.dumps(aliased(), 4),
    "a context that multiplies": lambda: pickle.dumps(contexts(), 4),
    "settings that double": lambda: pickle.dumps(settings(bomb(60)), 4),
    "frames that double": lambda: pickle.dumps(
        {
            "segments": [],
            "device_traces": [
                [raw.entry("alloc", 1, 1, 0, frames=[{"filename": bomb(40)}]) for _ in range(9)]
            ],
        },
        4,
    ),
    "equal frames that double": lambda: pickle.dumps(
        with_frames([{**raw.OUTER, "extra": bomb(40)}, raw.INNER]), 4
    ),
    "a JSON number of a million digits": lambda: b'{"segments": ' + b"9" * 1_000_000 + b"}",
    "a JSON float beyond all floats": lambda: (
        b'{"segments": [{"total_size": 1e999, "address": NaN}]}'
    ),
    "JSON settings with a large number": lambda: (
        b'{"segments": [], "allocator_settings": {"a": ' + b"9" * 4000 + b"}}"
    ),
    "a large number where a size belongs": lambda: pickle.dumps(
        {"segments": [{"total_size": 1 << 99999, "address": -1, "blocks": [{"size": 1 << 99999}]}]}
    ),
    "a large number where an action belongs": lambda: pickle.dumps(
        {"segments": [], "device_traces": [[{"action": 1 << 99999}]]}
    ),
    "a large number as a key": lambda: pickle.dumps({1 << 99999: 1}),
    "a lone surrogate": lambda: b"\x80\x04}\x8c\x03\xed\xa0\x80K\x01s.",
    "a string that is no UTF-8": lambda: b"\x80\x04\x8c\x02\xff\xfe.",
}


@pytest.fixture(scope="module", autouse=True)
def _an_extension_code() -> Any:
    copyreg.add_extension("collections", "Counter", CODE)
    # Unpickled once in good faith, a class is handed out of a cache from then on.
    assert pickle.loads(b"\x80\x02\x83\x02\x70.").__name__ == "Counter"
    yield
    copyreg.remove_extension("collections", "Counter", CODE)


def only(content: bytes) -> Outcome:
    (outcome,) = read([content], ALLOWED, SECONDS)
    return outcome


@pytest.mark.parametrize("what", CODE_RUNNERS)
def test_nothing_in_a_file_runs(what: str) -> None:
    content, words = CODE_RUNNERS[what]
    outcome = only(content)
    assert_safe(outcome)
    assert words in outcome.line


@pytest.mark.parametrize("what", CODE_RUNNERS)
def test_nothing_in_the_middle_of_a_snapshot_runs(what: str) -> None:
    content, words = CODE_RUNNERS[what]
    inner = content[2:-1]
    whole = pickle.dumps(raw.snapshot(), 2)
    outcome = only(b"\x80\x05](" + inner + b"e" + whole[2:])
    assert_safe(outcome)
    assert words in outcome.line


@pytest.mark.parametrize(
    "what",
    [
        what if what in GREEDY_FIRST else pytest.param(what, marks=pytest.mark.slow)
        for what in GREEDY
    ],
)
def test_memory_is_bounded(what: str) -> None:
    outcome = read_alone(GREEDY[what](), ALLOWED, SECONDS)
    assert_safe(outcome)
    assert outcome.line
    assert outcome.grown <= ALLOWED + INHERITED


@pytest.mark.parametrize("what", DEEP)
def test_depth_is_no_way_to_crash(what: str) -> None:
    assert_safe(only(DEEP[what]()))


def test_the_hash_of_a_deep_tuple_ends_the_child_alone() -> None:
    # No subclass of the C unpickler can prevent it: the death is what the child is for.
    outcome = only(nested(b"\x85", 1_000_000, b"})") + b"Ns.")
    assert outcome.died == signal.SIGSEGV or outcome.line


CRAFTED_FIRST = ("a trace named a thousand times", "settings that double", "frames that double")


@pytest.mark.parametrize(
    "what",
    with_variants(CRAFTED_FIRST, [what for what in CRAFTED if what not in CRAFTED_FIRST]),
)
def test_a_crafted_snapshot_gives_a_result_or_a_line(what: str) -> None:
    outcome = read_alone(CRAFTED[what](), ALLOWED, SECONDS)
    assert_safe(outcome)
    assert outcome.grown <= ALLOWED + INHERITED


def test_a_bomb_is_not_unpacked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.snapshots.read.limits.most_unpacked", lambda _: MIB)
    packed = gzip.compress(b"[" + b" " * 4 * MIB + b"]")
    with pytest.raises(SnapshotError, match=r"unpacks to more than 1\.0 MiB"):
        load(io.BytesIO(packed))


def test_a_gzip_of_which_the_size_cannot_be_known_is_read() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

    snapshot = load(Pipe(gzip.compress(json.dumps(raw.snapshot()).encode())))
    assert snapshot.container == "JSON, gzip"
