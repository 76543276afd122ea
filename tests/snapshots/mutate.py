"""Seeded damage to files: bytes flipped, cut, spliced; opcodes and values out of place."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.snapshots import raw

SMALL = 150_000
"""Bytes; larger real files would make a run of thousands long."""

HOSTILE = (
    b"cos\nsystem\n",
    b"\x8c\x02os\x8c\x06system\x93",
    b"(X\x04\0\0\0trueios\nsystem\n",
    b"R",
    b"o",
    b"b",
    b"\x81",
    b"\x92",
    b"Q",
    b"Pa\n",
    b"\x82\x01",
    b"\x83\x01\x00",
    b"\x84\x01\0\0\0",
    b"r\xff\xff\xff\x7f",
    b"j\xff\xff\xff\xff",
    b"\x8e" + b"\xff" * 8,
    b"\x8d" + struct.pack("<Q", 1 << 40),
    b"\x96" + struct.pack("<Q", 1 << 40),
    b"\x8b\xff\xff\xff\x7f",
    b"\x95" + struct.pack("<Q", 1 << 62),
    b"\x97",
    b"\x98",
    b"\x8f",
    b"\x90",
    b"\x91",
    b"(" * 50,
    b"\x85" * 200,
    b"]" * 50,
    b"}",
    b"0",
    b"1",
    b"2" * 20,
    b"e",
    b"u",
    b"s",
    b".",
    b"N",
    b"G\x7f\xf8\0\0\0\0\0\0",
    b"\x8a\xff" + b"\x7f" * 255,
    b"L" + b"9" * 500 + b"L\n",
    b"\x80\x05",
)


def seeds(folder: Path) -> list[bytes]:
    """Files to begin with: small real ones, and one of each container and form."""
    objects = raw.snapshot()
    objects["device_traces"][0].insert(3, raw.oom(1 << 30, 1 << 20, 2))
    objects["device_traces"][0][1].update(pool_id=(1, 2), user_metadata="epoch 3")
    pickles = [pickle.dumps(objects, protocol) for protocol in range(6)]
    pickles.append(pickle.dumps(objects["segments"], 4))
    pickles.append(json.dumps(objects).encode())
    pickles += [gzip.compress(pickles[4]), gzip.compress(pickles[7])]
    real = [path.read_bytes() for path in sorted(folder.glob("*.pickle"))]
    return pickles + [content for content in real if len(content) < SMALL]


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 31,
    1 << 63,
    (1 << 64) - 1,
    1 << 70,
    1 << 20_000,
    1.5,
    float("nan"),
    "",
    "\x1b[2J\n",
    "oom",
    "free_completed",
    "active_pending_free",
    b"bytes",
    [],
    {},
    (),
    (0, 1),
    [0, 1],
    [[[[]]]],
    {"a": {"b": []}},
)
"""Values where others belong."""


def _odd(content: bytes, chance: random.Random) -> bytes:
    """Return a valid pickle of a snapshot in which some values have the wrong type or size."""
    objects = pickle.loads(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        here = objects
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = chance.choice(keys)
            if isinstance(here[key], (dict, list)) and chance.random() < 0.9:
                here = here[key]
                continue
            if chance.random() < 0.2:
                del here[key]
            elif chance.random() < 0.2 and isinstance(here, list):
                here[key] = chance.choice(here)
            else:
                here[key] = chance.choice(ODD)
            break
    return pickle.dumps(objects, chance.randrange(2, 6))


def mutants(files: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """So many damaged files, the same for the same seed."""
    for number in range(count):
        # One generator each: any mutant can be made again without those before it.
        chance = random.Random(seed * 1_000_003 + number)
        content = bytearray(chance.choice(files))
        if content[:1] == b"\x80" and chance.random() < 0.5:
            yield _odd(bytes(content), chance)
            continue
        for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
            _damage(content, chance, files)
        yield bytes(content)


def _damage(content: bytearray, chance: random.Random, files: list[bytes]) -> None:
    kind = chance.randrange(8)
    at = chance.randrange(len(content) + 1)
    if kind == 0 and content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == 1 and content:
        content[chance.randrange(len(content))] = chance.randrange(256)
    elif kind == 2:
        del content[at:]
    elif kind == 3:
        del content[at : at + chance.randrange(1, 64)]
    elif kind == 4:
        other = chance.choice(files)
        start = chance.randrange(len(other) + 1)
        content[at:at] = other[start : start + chance.randrange(1, 2000)]
    elif kind == 5:
        content[at:at] = content[at : at + chance.randrange(1, 500)]
    elif kind == 6:
        content[at:at] = chance.choice(HOSTILE)
    else:
        piece = chance.choice(HOSTILE)
        content[at : at + len(piece)] = piece
