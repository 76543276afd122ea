"""Values of settings and options, read or refused in one line; which Python runs the workloads.

Neither argparse nor torch is imported to find them, and Textual only to find a theme: a
plain start reads its settings here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.core import settings
from tui.core.settings import BY_NAME, OWN_PALETTE, THEME, Settings, Value
from tui.kit.command_line.output import UsageError, not_known, print_notice

if TYPE_CHECKING:
    from workloads.protocol.results import Setting


def file_at(text: str) -> str:
    """Return the absolute path of a file of workloads.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"--workloads {text}: no such file")
    return str(path.absolute())


def setting_named(name: str) -> Callable[[str], Setting]:
    """Return the parser of a setting's value that is given as an option.

    Args:
        name: of the setting, see ``tui.core.settings``.

    Returns:
        A function that raises ``UsageError`` where the setting may not be that.
    """
    known = BY_NAME[name]

    def read(text: str) -> Setting:
        try:
            value = known.parse(text)
        except ValueError:
            value = None
        if value is None:
            raise UsageError(f"{known.flag} {text}: not {known.about}")
        return value

    return read


def python_at(text: str, source: str = "--python") -> str:
    """Return the Python that is named: a program, a command, or the folder of an environment.

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


def size_of(text: str, flag: str) -> int:
    """``4096``, ``512K`` or ``1.5 MiB`` in bytes.

    Args:
        text: as typed.
        flag: whose value it is, for the message.

    Raises:
        UsageError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(?:([KMGT])i?)?B?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{flag} {text}: give bytes, such as 4096 or 1MiB")
    return int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_of(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``5m`` or ``1.5h``.

    Raises:
        UsageError: it is no time above zero.
    """
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)\s*", text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if seconds <= 0:
        raise UsageError(f"{text}: give a time such as 90s, 5m or 1h")
    return seconds


def resolve(overrides: Mapping[str, Value]) -> tuple[Settings, tuple[str, ...]]:
    """Read the file and put the sources together.

    Args:
        overrides: settings from the command line, by the names of ``tui.core.settings``.

    Returns:
        The settings, and a line for each thing that is wrong with the file or a variable.
    """
    file = settings.read(settings.path())
    chosen, problems = settings.choose(file, os.environ, overrides)
    return chosen, (*file.problems, *problems)


def python_of(chosen: Settings) -> PythonChoice:
    """Return the Python that runs the workloads: that of the settings, else :func:`unnamed`.

    Raises:
        UsageError: there is no program. Another one is not taken in its place: its torch is not
            the one to be measured.
    """
    python = chosen.chosen["python"]
    if python.value is None:
        return unnamed()
    path = python_at(str(python.value), f"{python.source}: python")
    return PythonChoice(path, python.source)


def python_to_use(overrides: Mapping[str, Value]) -> PythonChoice:
    """All that a command without a screen takes of the settings; what is wrong is said on stderr.

    Args:
        overrides: settings from the command line, by name.

    Returns:
        The Python that runs the workloads.

    Raises:
        UsageError: there is no such program.
    """
    chosen, problems = resolve(overrides)
    for problem in problems:
        print_notice(problem)
    return python_of(chosen)


ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name the folder of an active environment: venv's and uv's, conda's."""
OWN = "this program's own"
SITE_PACKAGES = ("lib/python3*/site-packages", "lib64/python3*/site-packages")
SYSTEM_PACKAGES = (*SITE_PACKAGES, "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
"""Debian's too."""
TORCH_MARKS = ("torch/__init__.py", "torch-*.dist-info", "torch.egg-link")
"""Where it is, or what tells of one that is installed from its source."""


@dataclass(frozen=True, slots=True)
class PythonChoice:
    """A Python, and where its name comes from."""

    path: str
    source: str
    """:data:`OWN`, a setting's source such as ``--python``, or a variable of :data:`ACTIVE`."""

    @property
    def found(self) -> bool:
        """Nobody named it: it is the active environment's."""
        return self.source in ACTIVE

    @property
    def why(self) -> str:
        """In words."""
        if self.found:
            return f"the active environment's ({self.source}): {OWN} Python has no torch"
        return OWN if self.source == OWN else f"named by {self.source}"


def own_has_torch() -> bool:
    """Return whether this Python finds a torch; it is not imported."""
    return importlib.util.find_spec("torch") is not None


def unnamed(variables: Mapping[str, str] = os.environ) -> PythonChoice:
    """Return the Python to use where none is named: this one, or an active one with a torch.

    Args:
        variables: of the environment.
    """
    active = {name: variables[name] for name in ACTIVE if variables.get(name)}
    if any(not _same(Path(prefix), Path(sys.prefix)) for prefix in active.values()):
        # Asked only where there is a choice: a start takes 0.1 ms longer for each folder.
        if own_has_torch():
            return PythonChoice(sys.executable, OWN)
        for name, prefix in active.items():
            python = Path(prefix) / "bin" / "python"
            if has_torch(Path(prefix)) and os.access(python, os.X_OK):
                return PythonChoice(str(python.absolute()), name)
    return PythonChoice(sys.executable, OWN)


def has_torch(prefix: Path) -> bool:
    """Return whether the environment of a folder has torch, by its files: no Python is started.

    Args:
        prefix: holds ``bin/python``.
    """
    folders = [(prefix, SITE_PACKAGES), *((home, SYSTEM_PACKAGES) for home in _beneath(prefix))]
    return any(
        next(packages.glob(mark), None) is not None
        for root, places in folders
        for place in places
        for packages in root.glob(place)
        for mark in TORCH_MARKS
    )


def _beneath(prefix: Path) -> Iterator[Path]:
    """Yield the prefix below a virtual environment that sees its packages.

    ``pyvenv.cfg`` says both, see PEP 405.
    """
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    pairs = (line.partition("=") for line in text.splitlines())
    found = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if found.get("include-system-site-packages", "").lower() == "true" and found.get("home"):
        yield Path(found["home"]).parent


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
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
    default = replace(item, value=THEME, source="default")
    found = replace(chosen, chosen={**chosen.chosen, "theme": default})
    return found, (*problems, f"{problem}; {THEME} is used")
