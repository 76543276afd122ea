"""What a command is made of, and how what argparse found becomes its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from workloads.fact import fact

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tui.cli.options import Parser

T = TypeVar("T", bound="DataclassInstance")


@fact
class Subcommand(Generic[T]):
    """One command; ``T`` is the frozen dataclass of its options."""

    about: str
    """What it is for, in the list of commands."""
    options: type[T]
    """Each field has its default; argparse fills those that are given, by their names. Of the
    workbench's names only ``given`` and ``files`` are also a command's: what stands before the
    command is no option of it."""
    add_options: Callable[[Parser], None]
    """Adds the options to the command's parser, each with the name of its field as ``dest``."""
    work: Callable[[T], int]
    """Does what was asked for; returns the exit code."""
    place: int = 0
    """In the list of commands: the lowest is first."""
    description: str = ""
    """At the head of its own help, where that is to say more than ``about``."""
    usage_when_first: str = ""
    """What follows its name, for a command that keeps what it does not know in a field ``rest`` of
    its options. Such a command has to stand first. Empty for all others."""

    def carry_out(self, found: Mapping[str, object]) -> int:
        """Do the work with the options that were found, of which others than its own are ignored.

        Args:
            found: values by the names of fields.

        Returns:
            The exit code.
        """
        names = {field.name for field in fields(self.options)}
        given: dict[str, Any] = {name: value for name, value in found.items() if name in names}
        return self.work(self.options(**given))
