"""Settings that persist from one start to the next, and the source of each value. No Textual.

A value comes from the first of these sources that sets it: the command line, the environment, the
file, the default. The file is TOML in the platform's folder for settings; changes by the
program preserve its comments and order. A file that cannot be read is never overwritten.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_config_path

from tui.core import reports
from tui.core.borders import Borders, parse_borders
from workloads.protocol.results import Setting

FILE_VARIABLE = "GPU_WORKBENCH_CONFIG"
THEME, OWN_PALETTE = "workbench", "ansi"
"""The program's own themes: its dark colors, and the colors of the user's terminal."""
SHORTEST_REFRESH_S, LONGEST_REFRESH_S = 0.2, 60.0
MOST_RUNS = 100_000
LEAST_SIZE = 1 << 20
Value = Setting | None

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class SettingSpec(NamedTuple):
    """Specification of one setting."""

    name: str
    default: Value
    variable: str
    """Name of the environment variable."""
    about: str
    """Description of the allowed values, for an error message."""
    parse: Callable[[object], Value]
    """Turns a TOML value, or the text of a variable, into the value.

    Raises:
        ValueError: the value is not allowed.
    """
    flag: str = ""
    """Option on the command line; empty if there is none."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _refresh(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    seconds = float(value)
    if not SHORTEST_REFRESH_S <= seconds <= LONGEST_REFRESH_S:
        raise ValueError
    return seconds


def _borders(value: object) -> str:
    return str(parse_borders(_text(value)))


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = dict.fromkeys(("1", "true", "on", "yes"), True)
    words |= dict.fromkeys(("0", "false", "off", "no"), False)
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError
    number = int(value)
    if not 0 <= number <= MOST_RUNS:
        raise ValueError
    return number


def parse_size(text: str) -> int:
    """Parse ``4096``, ``512K`` or ``1.5 MiB`` as bytes.

    Raises:
        ValueError: the text is not a size.
    """
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(?:([KMGT])i?)?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError
    return int(float(match[1]) * 1024 ** " KMGT".index((match[2] or " ").upper()))


def format_size(size: int) -> str:
    """Format bytes as :func:`parse_size` reads them, without rounding: ``5G``, ``256M``."""
    for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return str(size)


def is_size(name: str) -> bool:
    """Return whether the setting of this name is a size in bytes."""
    return BY_NAME[name].parse is _size


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError
    size = parse_size(str(value))
    if size < LEAST_SIZE:
        raise ValueError
    return size


def _path(value: object) -> str:
    return str(Path(_text(value)).expanduser())


KNOWN = (
    SettingSpec(
        "theme",
        THEME,
        variable="TEXTUAL_THEME",
        flag="--theme",
        about="a theme's name",
        parse=_text,
    ),
    SettingSpec(
        "refresh",
        1.0,
        variable="GPU_WORKBENCH_REFRESH",
        flag="--refresh",
        about=f"{SHORTEST_REFRESH_S:g} to {LONGEST_REFRESH_S:g} seconds",
        parse=_refresh,
    ),
    SettingSpec(
        "borders",
        str(Borders()),
        variable="GPU_WORKBENCH_BORDERS",
        about="percent of the width left of the borders of two and of three columns: 50 22 74",
        parse=_borders,
    ),
    SettingSpec(
        "device",
        None,
        variable="GPU_WORKBENCH_DEVICE",
        flag="--device",
        about="cpu, a GPU's UUID or torch's name of it",
        parse=_text,
    ),
    SettingSpec(
        "python",
        None,
        variable="GPU_WORKBENCH_PYTHON",
        flag="--python",
        about="a Python that has torch",
        parse=_path,
    ),
    SettingSpec(
        "mouse",
        True,
        variable="GPU_WORKBENCH_MOUSE",
        flag="--no-mouse",
        about="true or false",
        parse=_switch,
    ),
    SettingSpec(
        "ascii",
        False,
        variable="GPU_WORKBENCH_ASCII",
        flag="--ascii",
        about="true or false",
        parse=_switch,
    ),
    SettingSpec(
        "alarm", True, variable="GPU_WORKBENCH_ALARM", about="true or false", parse=_switch
    ),
    SettingSpec(
        "runs_kept",
        20,
        variable="GPU_WORKBENCH_RUNS_KEPT",
        about=f"a number of watched runs, 0 to {MOST_RUNS}",
        parse=_count,
    ),
    SettingSpec(
        "runs_size",
        5 << 30,
        variable="GPU_WORKBENCH_RUNS_SIZE",
        about="a size such as 5G, at least 1M",
        parse=_size,
    ),
    SettingSpec(
        "log_size",
        256 << 20,
        variable="GPU_WORKBENCH_LOG_SIZE",
        about="a size such as 256M, at least 1M",
        parse=_size,
    ),
)
BY_NAME = {item.name: item for item in KNOWN}
PARAMETERS = "parameters"
"""The table in the file that contains a table of parameters for each workload."""


class ChosenSetting(NamedTuple):
    """A value and its source."""

    name: str
    value: Value
    source: str
    """``default``, ``TEXTUAL_THEME``, ``--theme``, or the file's name and line."""


class FromFile(NamedTuple):
    """Contents of a settings file: values by name with their lines, and its errors."""

    path: Path
    values: dict[str, tuple[Value, int]]
    parameters: dict[str, dict[str, Setting]]
    problems: tuple[str, ...]
    """Errors, one line each: what, where, and what the program does instead."""
    writable: bool
    """True if the file can be changed without losing its contents."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, each with its source."""

    file: FromFile
    chosen: dict[str, ChosenSetting]

    def value(self, name: str) -> Any:
        """Return a setting's value by its name."""
        return self.chosen[name].value


def path() -> Path:
    """Return the path of the file: ``$GPU_WORKBENCH_CONFIG`` or in the platform's folder."""
    if variable := os.environ.get(FILE_VARIABLE):
        return Path(variable)
    return user_config_path("gpu-workbench") / "config.toml"


def read(file_path: Path) -> FromFile:
    """Read the file; a missing one has no values, a broken one yields problems with their lines."""
    try:
        text = file_path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return FromFile(file_path, {}, {}, (), writable=True)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        problem = f"{file_path}: {why}; the defaults are used"
        return FromFile(file_path, {}, {}, (problem,), writable=False)
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = f"{file_path}: {error}; fix it or remove it; until then the defaults are used"
        return FromFile(file_path, {}, {}, (problem,), writable=False)
    return _checked(file_path, text, settings)


def _checked(file_path: Path, text: str, settings: Mapping[str, object]) -> FromFile:
    values: dict[str, tuple[Value, int]] = {}
    problems: list[str] = []

    def report(key: str, problem: str) -> None:
        problems.append(f"{file_path}:{_line_of(text, key)}: {problem}")

    for name, value in settings.items():
        known = BY_NAME.get(name)
        if name == PARAMETERS:
            continue
        if known is None:
            names = ", ".join([*BY_NAME, PARAMETERS])
            report(name, f"{name} is not known; there are {names}")
            continue
        try:
            values[name] = (known.parse(value), _line_of(text, name))
        except ValueError:
            report(name, f"{name} = {value!r}: must be {known.about}")
    parameters = _parameters(settings.get(PARAMETERS, {}), report)
    return FromFile(file_path, values, parameters, tuple(problems), writable=True)


def _parameters(
    content: object, report: Callable[[str, str], None]
) -> dict[str, dict[str, Setting]]:
    """Return the tables of the workloads; each workload checks its values itself.

    Args:
        content: what the file has under :data:`PARAMETERS`.
        report: receives a key with a problem of its value.
    """
    if not isinstance(content, Mapping):
        report(PARAMETERS, f"{PARAMETERS} is not a table")
        return {}
    tables: dict[str, dict[str, Setting]] = {}
    for name, table in content.items():
        if not isinstance(table, Mapping):
            report(name, f"{PARAMETERS}.{name} is not a table")
            continue
        tables[name] = {}
        for key, value in table.items():
            if isinstance(value, (bool, int, float, str)):
                tables[name][key] = value
            else:
                report(key, f"{key}: not a single value")
    return tables


def _line_of(text: str, name: str) -> int:
    """Return the first line that sets a key or opens that table; 1 if there is none."""
    word = re.escape(name)
    pattern = re.compile(rf'^\s*(?:"?{word}"?\s*[=.]|\[\s*(?:[^\]]*\.)?"?{word}"?)')
    lines = text.splitlines()
    return next((number for number, row in enumerate(lines, start=1) if pattern.match(row)), 1)


def choose(
    file: FromFile, environment: Mapping[str, str], flags: Mapping[str, Value]
) -> tuple[Settings, tuple[str, ...]]:
    """Combine the values of all sources.

    Args:
        file: contents of the settings file.
        environment: variables by name; an empty one counts as not set.
        flags: values from the command line by name, without options that were not given.

    Returns:
        The settings, and a line for each variable that could not be used.
    """
    chosen: dict[str, ChosenSetting] = {}
    problems: list[str] = []
    for known in KNOWN:
        setting = ChosenSetting(known.name, known.default, "default")
        if known.name in file.values:
            value, line = file.values[known.name]
            setting = ChosenSetting(known.name, value, f"{file.path}:{line}")
        if text := environment.get(known.variable):
            try:
                setting = ChosenSetting(known.name, known.parse(text), known.variable)
            except ValueError:
                problems.append(f"{known.variable}={text!r}: must be {known.about}; it is ignored")
        if known.name in flags:
            setting = ChosenSetting(known.name, flags[known.name], known.flag)
        chosen[known.name] = setting
    return Settings(file, chosen), tuple(problems)


def remember(
    file_path: Path, values: Mapping[str, Value], parameters: Mapping[str, Mapping[str, Setting]]
) -> None:
    """Write changes into the file, preserving its comments and order.

    Args:
        file_path: path of the file; it and its folder are created readable by the user alone.
        values: new values by name; ``None`` removes one.
        parameters: by workload, the parameters that differ from their defaults; an empty table
            removes the workload.

    Raises:
        OSError: the file cannot be written.
        ValueError: the file is broken, and stays unchanged.
    """
    # Deferred: only a session that changed a setting needs it, at its end (5 ms).
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = file_path.read_text(encoding="utf-8") if file_path.exists() else ""
    try:
        document = tomlkit.parse(before)
        for name, value in values.items():
            if value is not None:
                document[name] = value
            elif name in document:
                del document[name]
        if parameters:
            tables = document.setdefault(PARAMETERS, tomlkit.table(is_super_table=True))
            _update_tables(tables, parameters)
            if not tables:
                del document[PARAMETERS]
    except TOMLKitError as error:
        raise ValueError(f"{file_path}: {error}; it is left as it is") from error
    after = tomlkit.dumps(document)
    if after == before:
        return
    reports.write_private(file_path, after.encode())


def _update_tables(tables: Any, parameters: Mapping[str, Mapping[str, Setting]]) -> None:
    for workload, values in parameters.items():
        if values:
            tables[workload] = dict(values)
        elif workload in tables:
            del tables[workload]
