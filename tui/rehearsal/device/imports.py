"""Read torch's imports from NVIDIA's libraries out of its files, without loading them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import SymbolTableSection

from tui.rehearsal.device.installation import CannotSimulateError

LIBRARIES = re.compile(r"lib(cu|nv|nccl)")
"""The beginning of the names of NVIDIA's libraries."""

FUNCTIONS = re.compile(
    r"__cuda|cu[A-Z]|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvshmem"
)
"""The beginning of the names of their functions."""


@dataclass(frozen=True, slots=True)
class TorchImports:
    """torch's imports from NVIDIA's libraries."""

    libraries: frozenset[str]
    """Their names, such as ``libcudart.so.13``."""
    functions: dict[str, str]
    """Each function with its symbol version; empty if it has none."""
    versions: dict[str, frozenset[str]]
    """The symbol versions that each library must define."""


def read_imports(torch: Path) -> TorchImports:
    """Return the imports of torch's libraries from NVIDIA's.

    Raises:
        CannotSimulateError: a library cannot be read, or is not an ELF file.
    """
    libraries: set[str] = set()
    functions: dict[str, str] = {}
    versions: dict[str, set[str]] = {}
    for path in sorted(path for path in (torch / "lib").glob("*.so*") if path.is_file()):
        try:
            with path.open("rb") as file:
                elf = ELFFile(file)
                libraries |= set(filter(LIBRARIES.match, _needed(elf)))
                names = dict(_version_names(elf, versions))
                functions.update(_undefined(elf, names))
        except (OSError, ELFError) as error:
            raise CannotSimulateError(f"torch's library {path} cannot be read: {error}") from error
    return TorchImports(
        frozenset(libraries),
        functions,
        {name: frozenset(version) for name, version in versions.items() if LIBRARIES.match(name)},
    )


def defined_functions(path: Path) -> set[str]:
    """Return the names of the global functions that an object file defines."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
        return {
            symbol.name
            for symbol in symbols
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        }


def _needed(elf: ELFFile) -> Iterator[str]:
    section = elf.get_section_by_name(".dynamic")
    if isinstance(section, DynamicSection):
        for tag in section.iter_tags("DT_NEEDED"):
            yield tag.needed  # type: ignore[attr-defined] # which such a tag has


def _version_names(elf: ELFFile, versions: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    """Yield the index and the name of each version needed; add it to those of its library."""
    section = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return
    for library, needed in section.iter_versions():
        for version in needed:
            versions.setdefault(str(library.name), set()).add(str(version.name))
            yield version["vna_other"], str(version.name)


def _undefined(elf: ELFFile, names: dict[int, str]) -> Iterator[tuple[str, str]]:
    """Yield each undefined function of NVIDIA's with its symbol version."""
    symbols = elf.get_section_by_name(".dynsym")
    if not isinstance(symbols, SymbolTableSection):
        return
    indices = elf.get_section_by_name(".gnu.version")
    hashed = elf.get_section_by_name(".gnu.hash")
    end = symbols.num_symbols()
    if isinstance(hashed, GNUHashSection):
        end = hashed.params["symoffset"]  # it covers the defined symbols, which come last
    for place in range(end):
        symbol = symbols.get_symbol(place)
        if symbol["st_shndx"] == "SHN_UNDEF" and FUNCTIONS.match(symbol.name):
            version = 0
            if isinstance(indices, GNUVerSymSection):
                version = indices.get_symbol(place)["ndx"]
            yield symbol.name, names.get(version, "")
