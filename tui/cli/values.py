"""Values of options: each is read from its text, or refused in one line."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.arguments import UsageError

if TYPE_CHECKING:
    from workloads.inventory import Setting


def event_range(text: str) -> tuple[int, int | None]:
    """``1000..2000`` as the first and the last number; either may be left out.

    Raises:
        UsageError: it is not of that form.
    """
    first, dots, last = text.partition("..")
    ends = [end.strip() for end in (first, last)]
    if not dots or any(end and not end.isdecimal() for end in ends):
        raise UsageError(f"--range {text}: give two numbers, such as 1000..2000 or 1000..")
    low, high = int(ends[0] or 0), int(ends[1]) if ends[1] else None
    if high is not None and high < low:
        raise UsageError(f"--range {text}: the first number is the larger one")
    return low, high


def size_of(text: str) -> int:
    """``4096``, ``512K`` or ``1.5 MiB`` in bytes.

    Raises:
        UsageError: it is no size.
    """
    import re

    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])i?)?B?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--min-size {text}: give bytes, such as 4096 or 1MiB")
    return int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))


def speed(text: str) -> float:
    """``2``, ``0.5`` or ``max``, which is infinite.

    Raises:
        UsageError: it is none of them.
    """
    try:
        value = math.inf if text == "max" else float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or (math.isinf(value) and text != "max"):
        raise UsageError(f"--speed {text}: give a number above 0, such as 2 or 0.5, or max")
    return value


def port(text: str) -> int:
    """The number of a port.

    Raises:
        UsageError: it is none.
    """
    if not (text.isdecimal() and int(text) < 2**16):
        raise UsageError(f"--port {text}: give a number up to 65535, 0 for any that is free")
    return int(text)


def settings(texts: Sequence[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text}: give a name and a value, such as n=4096")
        settings[name.strip()] = value.strip()
    return settings


def flag_setting(text: str) -> tuple[str, tuple[bool, bool]]:
    """``cudnn.benchmark=off,on`` as a name and two values.

    Raises:
        UsageError: it is not of that form.
    """
    name, _, values = text.partition("=")
    words = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
    parts = [part.strip().lower() for part in values.split(",")]
    if not name or len(parts) != 2 or any(part not in words for part in parts):
        raise UsageError(f"--flag {text}: give a name and two settings, such as {name}=off,on")
    return name.strip(), (words[parts[0]], words[parts[1]])


def file_at(text: str) -> str:
    """The absolute path of a file of workloads.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"--workloads {text}: no such file")
    return str(path.absolute())


def setting(name: str, text: str) -> Setting:
    """The value of a setting that is given as an option.

    Raises:
        UsageError: it may not be that.
    """
    from tui.settings import BY_NAME

    known = BY_NAME[name]
    try:
        value = known.parse(text)
    except ValueError:
        value = None
    if value is None:
        raise UsageError(f"{known.flag} {text}: not {known.about}")
    return value


def python_at(text: str, source: str = "--python") -> str:
    """The Python that is named: a program, a command, or the folder of an environment.

    Args:
        text: the name.
        source: what names it, for the message.

    Raises:
        UsageError: there is no program there.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if path.is_file() and os.access(path, os.X_OK):
        # Not resolved: a virtual environment's Python is a link, and its place says which one.
        return str(path.absolute())
    found = shutil.which(text)
    if found is None or os.sep in text:
        raise UsageError(f"{source} {text}: no program there; give the path of a Python with torch")
    return found
