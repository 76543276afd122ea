"""The calls of the reader child: the name, the arguments and the value of each analysis.

``await reader.call(SITES, SitesArguments(…))`` returns a :class:`SiteListing`. The reader child
computes them in :mod:`tui.snapshots.model.calls`; the program imports these declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from tui.snapshots.model.pictures import Piece, Pinning, RowPicture, Stacking, Timeline
from tui.snapshots.model.results import (
    Difference,
    Grouping,
    Order,
    Part,
    SiteListing,
    State,
    Verdict,
)
from tui.snapshots.model.snapshot import Frame
from workloads.protocol.wire import from_plain

if TYPE_CHECKING:
    from typing_extensions import TypeForm

Slot = tuple[str, ...]
"""Of two calls with the same slot, only the newer matters."""
Arguments = TypeVar("Arguments")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Method(Generic[Arguments, Value]):
    """An analysis of the open files: its name and the types of its arguments and its value."""

    name: str
    arguments: type[Arguments]
    """A frozen dataclass."""
    value: TypeForm[Value]
    apart: Callable[[Arguments], Slot] = lambda _arguments: ()
    """Return the part of the arguments that gives a call a slot of its own."""

    def parse_arguments(self, plain: Any) -> Arguments:
        """Return the arguments of a call that came over the pipe.

        Raises:
            WireError: the arguments do not have the declared type.
        """
        return cast(Arguments, from_plain(self.arguments, plain, self.name))

    def parse_value(self, plain: Any) -> Value:
        """Return the value of an answer that came over the pipe.

        Raises:
            WireError: the value does not have the declared type.
        """
        return cast(Value, from_plain(self.value, plain, self.name))


@dataclass(frozen=True, slots=True)
class Need(Generic[Arguments, Value]):
    """A method with its arguments: what a pane shows in its present state."""

    method: Method[Arguments, Value]
    arguments: Arguments

    @property
    def slot(self) -> Slot:
        """The slot of its calls."""
        return (self.method.name, *self.method.apart(self.arguments))


@dataclass(frozen=True, slots=True)
class OomTextArguments:
    text: str


SET_OOM_TEXT = Method("set_oom_text", OomTextArguments, int)


@dataclass(frozen=True, slots=True)
class VerdictArguments:
    device: int
    event: int
    top: int = 10


VERDICT = Method("verdict", VerdictArguments, Verdict)


@dataclass(frozen=True, slots=True)
class StateArguments:
    device: int
    event: int | None


STATE = Method("state", StateArguments, State)


@dataclass(frozen=True, slots=True)
class TimelineArguments:
    device: int
    width: int
    """Columns."""
    first: int = 0
    last: int | None = None
    stacking: Stacking = "site"


TIMELINE = Method("timeline", TimelineArguments, Timeline)


@dataclass(frozen=True, slots=True)
class PartArguments:
    device: int
    event: int | None
    stacking: Stacking
    layer: str
    """Its key; empty for the rest."""


PART = Method("part", PartArguments, Part)


@dataclass(frozen=True, slots=True)
class SitesArguments:
    device: int
    event: int | None
    path: tuple[str, ...] = ()
    """The node whose children are listed."""
    grouping: Grouping = "site"
    order: Order = "bytes"
    search: str = ""
    regex: bool = False
    limit: int = 200


SITES = Method("sites", SitesArguments, SiteListing, apart=lambda arguments: arguments.path)


@dataclass(frozen=True, slots=True)
class StackArguments:
    stack: int


STACK = Method("stack", StackArguments, tuple[Frame, ...])


@dataclass(frozen=True, slots=True)
class MapArguments:
    device: int
    event: int | None
    first: int
    """The first row."""
    count: int
    """Of rows."""
    width: int
    """Cells of a row."""


@dataclass(frozen=True, slots=True)
class MapPage:
    """Some rows of the segment map."""

    rows: tuple[RowPicture, ...]
    total: int
    """Rows of the whole map."""


MAP = Method("map", MapArguments, MapPage)


@dataclass(frozen=True, slots=True)
class StretchArguments:
    device: int
    event: int | None
    row: int
    start: int
    end: int
    """The stretch of addresses that is drawn."""
    width: int
    """Cells."""
    address: int
    """Of the piece that is described."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of one segment: its cells, and the piece at one address."""

    states: str
    used: str
    begins: str
    """The stretch drawn as cells, in the letters and digits of :class:`RowPicture`."""
    piece: Piece | None
    """What lies at the address asked for; ``None`` where nothing is mapped."""
    frames: tuple[Frame, ...]
    """The stack of the piece, innermost first, without frames of C++."""


STRETCH = Method("stretch", StretchArguments, Stretch)


@dataclass(frozen=True, slots=True)
class PinningArguments:
    device: int
    event: int | None
    row: int
    most: int = 1
    """Blocks that may be released."""


PINNING = Method("pinning", PinningArguments, Pinning | None)


@dataclass(frozen=True, slots=True)
class DifferenceArguments:
    device: int
    at_peak: bool = False
    grouping: Grouping = "site"
    limit: int = 300


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two files on one device, the first rows of it."""

    difference: Difference
    more: int
    """Rows that were left off."""


DIFFERENCE = Method("difference", DifferenceArguments, Changes)


@dataclass(frozen=True, slots=True)
class ReportArguments:
    form: Literal["json", "markdown"]
    device: int | None = None
    event: int | None = None
    """A state to report on besides; ``None`` for none."""
    top: int = 10
    at_peak: bool = True
    """Two files are compared at their peaks, else at their ends."""


REPORT = Method("report", ReportArguments, str)

METHODS: dict[str, Method[Any, Any]] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Method)
}
"""The methods above, by name."""
