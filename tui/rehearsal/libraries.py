"""Comparison of a rehearsed program's libraries with the requirements of its target.

A program with another version of a library is another program: it may allocate otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tui.watch.runs.agent_events import LibraryVersion

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OTHERS = "Other library versions may use other amounts"
MOST_BYTES = 32 << 20
"""Largest file of requirements that is read: lock files of large projects have some megabytes."""


class BadRequirementsError(ValueError):
    """A file of requirements that cannot be used; the text is one line."""


@dataclass(frozen=True, slots=True)
class TargetLibraries:
    """The versions that a file of requirements allows."""

    file: str
    """Name of the file."""
    allowed: Mapping[str, SpecifierSet]
    """By normalized name."""


@dataclass(frozen=True, slots=True)
class DifferentLibrary:
    """A library whose version the target does not allow."""

    name: str
    here: str
    there: str
    """The versions that the target allows, such as ``==4.41.2``."""


def read_target(path: Path) -> TargetLibraries:
    """Read the libraries of a target.

    Args:
        path: a file of requirements as pip reads and ``pip freeze`` writes it, or a lock file in
            TOML: ``pylock.toml``, ``uv.lock``, ``poetry.lock``, ``pdm.lock``.

    Raises:
        BadRequirementsError: the file cannot be read, or names no version of any library.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadRequirementsError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise BadRequirementsError(f"{path} has more than {MOST_BYTES >> 20} MiB")
    text = data.decode("utf-8", "replace")
    is_lock = path.suffix in (".toml", ".lock")
    allowed = _parse_lock(path, text) if is_lock else _parse_requirements(text)
    if not allowed:
        raise BadRequirementsError(
            f"{path} names no version of any library; give what pip freeze prints on the target"
        )
    return TargetLibraries(path.name, allowed)


def _parse_requirements(text: str) -> dict[str, SpecifierSet]:
    """Parse the lines with versions; ignore options and addresses."""
    requirements: dict[str, SpecifierSet] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition(" #")[0].partition(" --")[0].strip()
        if not words or words[0] in "#-":
            continue
        try:
            requirement = Requirement(words)
        except InvalidRequirement:
            continue  # a path, or the address of an archive
        if requirement.specifier:
            name = canonicalize_name(requirement.name)
            requirements[name] = requirements.get(name, SpecifierSet()) & requirement.specifier
    return requirements


def _parse_lock(path: Path, text: str) -> dict[str, SpecifierSet]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRequirementsError(f"{path} is no TOML: {error}") from error
    versions: dict[str, set[str]] = {}
    for key in ("package", "packages"):
        packages = data.get(key)
        for package in packages if isinstance(packages, list) else ():
            if isinstance(package, dict):
                name, version = package.get("name"), package.get("version")
                if isinstance(name, str) and isinstance(version, str):
                    versions.setdefault(canonicalize_name(name), set()).add(version)
    # A lock for several platforms may have several versions of one library: which is unknown.
    return {
        name: SpecifierSet(f"=={version.pop()}")
        for name, version in versions.items()
        if len(version) == 1
    }


def find_differences(
    versions: Iterable[LibraryVersion], target: TargetLibraries
) -> tuple[DifferentLibrary, ...]:
    """Return the libraries whose versions the target does not allow.

    Libraries that the target does not name are not compared.
    """
    differences = []
    for version in versions:
        allowed = target.allowed.get(canonicalize_name(version.name))
        if allowed is None:
            continue
        try:
            is_same = allowed.contains(Version(version.version), prereleases=True)
        except InvalidVersion:
            is_same = str(allowed).lstrip("=") == version.version
        if not is_same:
            differences.append(DifferentLibrary(version.name, version.version, str(allowed)))
    return tuple(differences)


def library_line(versions: Sequence[LibraryVersion], target: TargetLibraries | None) -> str:
    """Describe the rehearsed libraries and their differences from the target's; may be empty.

    Args:
        versions: the libraries of the rehearsed processes.
        target: the target's libraries; ``None`` if unknown.
    """
    if not versions:
        return ""
    if target is not None:
        different = find_differences(versions, target)
        if different:
            listed = ", ".join(
                f"{library.name} {library.here} is not {library.there}" for library in different
            )
            return f"Not the libraries of {target.file}: {listed}. {OTHERS}."
    names = ", ".join(f"{version.name} {version.version}" for version in versions)
    if target is None:
        return f"Libraries: {names}. {OTHERS}; --target-requirements FILE compares."
    compared = sum(canonicalize_name(version.name) in target.allowed for version in versions)
    if not compared:
        return f"Libraries: {names}; {target.file} names none of them."
    return f"Libraries: {names}; as far as {target.file} names them, they are the target's."


def has_kernels(architectures: Sequence[str], capability: int) -> bool:
    """Return whether a build of torch has kernels for a card.

    Compiled kernels run on cards of the same major capability and of at least their minor one;
    PTX is compiled for any later card.

    Args:
        architectures: torch's list, such as ``sm_80`` and ``compute_90``; empty if unknown.
        capability: the card's compute capability, times ten.
    """
    if not architectures:
        return True
    for architecture in architectures:
        kind, _, digits = architecture.partition("_")
        number = int("".join(filter(str.isdigit, digits)) or 0)
        if digits[-1:].isalpha():  # such as sm_90a: for that capability alone
            if number == capability:
                return True
        elif kind == "compute":
            if number <= capability:
                return True
        elif number // 10 == capability // 10 and number <= capability:
            return True
    return False
