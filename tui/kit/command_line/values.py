"""Parse the values of settings and options, and choose the Python that runs the workloads.

A plain start reads its settings here, so this imports neither argparse nor torch, and Textual only
to find a theme.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.core import settings
from tui.core.settings import BY_NAME, OWN_PALETTE, THEME, Settings, Value
from tui.kit.command_line.output import UsageError, not_known, print_notice

if TYPE_CHECKING:
    from workloads.protocol.results import Setting


def parse_file(text: str) -> str:
    """Return the absolute path of a file of workloads.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"--workloads {text}: no such file")
    return str(path.absolute())


def setting_named(name: str) -> Callable[[str], Setting]:
    """Return a parser for an option that sets a setting.

    Args:
        name: name of the setting in ``tui.core.settings``.

    Returns:
        A function that raises ``UsageError`` for an invalid value.
    """
    known = BY_NAME[name]

    def read(text: str) -> Setting:
        try:
            value = known.parse(text)
        except ValueError:
            value = None
        if value is None:
            raise UsageError(f"{known.flag} {text}: must be {known.about}")
        return value

    return read


def python_at(text: str, source: str = "--python") -> str:
    """Return the path of a named Python: a program, a command, or an environment's folder.

    Args:
        text: the name.
        source: the option or setting that names it, for the message.

    Raises:
        UsageError: there is no program there.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    if path.is_file() and os.access(path, os.X_OK):
        # Not resolved: a virtual environment's Python is a link, and its path identifies the
        # environment.
        return str(path.absolute())
    executable = shutil.which(text)
    if executable is None or os.sep in text:
        raise UsageError(f"{source} {text}: no program there; give the path of a Python with torch")
    return executable


def size_of(text: str, flag: str) -> int:
    """Parse the size of an option as bytes, as :func:`tui.core.settings.parse_size` does.

    Args:
        text: as typed.
        flag: the option, for the message.

    Raises:
        UsageError: the text is not a size.
    """
    try:
        return settings.parse_size(text)
    except ValueError:
        raise UsageError(f"{flag} {text}: give bytes, such as 4096 or 1MiB") from None


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_SECONDS = 1e9
"""A longer time is a mistake."""


def parse_duration(text: str, flag: str = "--for") -> float:
    """Return the seconds of ``90``, ``90s``, ``5m`` or ``1.5h``.

    Args:
        text: as typed.
        flag: the option, for the message.

    Raises:
        UsageError: the text is not a time above zero.
    """
    match = re.fullmatch(r"\s*(\d{0,9}(?:\.\d{1,9})?)\s*([smhd]?)\s*", text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match is not None and match[1] else 0.0
    if not 0 < seconds < _MOST_SECONDS:
        raise UsageError(f"{flag} {text}: give a time such as 90s, 5m or 1h")
    return seconds


def whole_number(flag: str) -> Callable[[str], int]:
    """Return a parser for an option that takes a whole number.

    Args:
        flag: the option, for the message.

    Returns:
        A function that raises ``UsageError`` for text that is not a whole number.
    """

    def parse(text: str) -> int:
        if re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", text) is None:
            raise UsageError(f"{flag} {text}: give a whole number")
        return int(text)

    return parse


def resolve(overrides: Mapping[str, Value]) -> tuple[Settings, tuple[str, ...]]:
    """Read the settings file and combine all sources.

    Args:
        overrides: settings from the command line, by the names of ``tui.core.settings``.

    Returns:
        The settings, and a line for each error in the file or a variable.
    """
    file = settings.read(settings.path())
    chosen, problems = settings.choose(file, os.environ, overrides)
    return chosen, (*file.problems, *problems)


def python_of(chosen: Settings) -> PythonChoice:
    """Return the Python that runs the workloads: the setting, else :func:`unnamed`.

    Raises:
        UsageError: the set Python does not exist. No other replaces it, because it would measure
            another torch.
    """
    python = chosen.chosen["python"]
    if python.value is None:
        return unnamed()
    path = python_at(str(python.value), f"{python.source}: python")
    return PythonChoice(path, python.source)


def python_to_use(overrides: Mapping[str, Value]) -> PythonChoice:
    """Apply the settings of a command without a screen, and print their errors on stderr.

    Args:
        overrides: settings from the command line, by name.

    Returns:
        The Python that runs the workloads.

    Raises:
        UsageError: the Python does not exist.
    """
    chosen, problems = resolve(overrides)
    for problem in problems:
        print_notice(problem)
    return python_of(chosen)


ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables with the folder of an active environment, of venv and uv or of conda."""
OWN = "this program's own"
SITE_PACKAGES = ("lib/python3*/site-packages", "lib64/python3*/site-packages")
SYSTEM_PACKAGES = (*SITE_PACKAGES, "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
"""Includes Debian's folders."""
TORCH_MARKS = ("torch/__init__.py", "torch-*.dist-info", "torch.egg-link")
"""Files of an installed torch, also of one installed from its source."""


class PythonChoice(NamedTuple):
    """A Python, and the source of this choice."""

    path: str
    source: str
    """:data:`OWN`, a setting's source such as ``--python``, or a variable of :data:`ACTIVE`."""

    @property
    def is_detected(self) -> bool:
        """True if it is the active environment's and not named by the user."""
        return self.source in ACTIVE

    @property
    def why(self) -> str:
        """The source in words."""
        if self.is_detected:
            return f"the active environment's ({self.source}): {OWN} Python has no torch"
        return OWN if self.source == OWN else f"named by {self.source}"


def own_has_torch() -> bool:
    """Return whether this Python can import torch, without importing it."""
    return importlib.util.find_spec("torch") is not None


def unnamed(variables: Mapping[str, str] = os.environ) -> PythonChoice:
    """Return the Python to use if none is named: this one, or an active environment's with torch.

    Args:
        variables: environment variables.
    """
    active = {name: variables[name] for name in ACTIVE if variables.get(name)}
    if any(not _is_same(Path(prefix), Path(sys.prefix)) for prefix in active.values()):
        # Check only if there is a choice: each folder adds 0.1 ms to a start.
        if own_has_torch():
            return PythonChoice(sys.executable, OWN)
        for name, prefix in active.items():
            python = Path(prefix) / "bin" / "python"
            if has_torch(Path(prefix)) and os.access(python, os.X_OK):
                return PythonChoice(str(python.absolute()), name)
    return PythonChoice(sys.executable, OWN)


def has_torch(prefix: Path) -> bool:
    """Return whether an environment has torch by its files, without starting its Python.

    Args:
        prefix: folder with ``bin/python``.
    """
    folders = [(prefix, SITE_PACKAGES), *((home, SYSTEM_PACKAGES) for home in _yield_base(prefix))]
    return any(
        next(packages.glob(mark), None) is not None
        for root, places in folders
        for place in places
        for packages in root.glob(place)
        for mark in TORCH_MARKS
    )


def _yield_base(prefix: Path) -> Iterator[Path]:
    """Yield the base environment if the virtual environment sees its packages.

    ``pyvenv.cfg`` states both (PEP 405).
    """
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    pairs = (line.partition("=") for line in text.splitlines())
    headers = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if headers.get("include-system-site-packages", "").lower() == "true" and headers.get("home"):
        yield Path(headers["home"]).parent


def _is_same(first: Path, other: Path) -> bool:
    try:
        return first.samefile(other)
    except OSError:
        return False


PICKER = "T in the workbench"


def theme_names() -> Sequence[str]:
    """Return the names of the themes: the program's own, then Textual's, sorted."""
    # Deferred: a start launches its monitor before it imports Textual (100 ms).
    from textual.theme import BUILTIN_THEMES

    return [THEME, OWN_PALETTE, *sorted(BUILTIN_THEMES)]


def with_theme(chosen: Settings, problems: Sequence[str]) -> tuple[Settings, tuple[str, ...]]:
    """Replace an unknown theme with the default, and add a line about it to the problems.

    Raises:
        UsageError: the command line names an unknown theme.
    """
    item, themes = chosen.chosen["theme"], theme_names()
    if item.value in themes:
        return chosen, tuple(problems)
    problem = f"{item.source}: {not_known('theme', str(item.value), themes, PICKER)}"
    if item.source == "--theme":
        raise UsageError(problem)
    default = item._replace(value=THEME, source="default")
    themed = replace(chosen, chosen={**chosen.chosen, "theme": default})
    return themed, (*problems, f"{problem}; {THEME} is used")
