"""The calls of the reader child: the name, the arguments and the value type of each analysis.

``await reader.call(SITES, SitesArguments(…))`` returns a :class:`SiteListing`. The reader child
computes them in :mod:`tui.snapshots.reader.methods`; the program imports these declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.pictures import (
    AllocationSize,
    Flame,
    LayerSize,
    Piece,
    Pinning,
    RowPicture,
    SiteHistory,
    SiteInUse,
    Stacking,
    Timeline,
)
from tui.snapshots.model.results import (
    Difference,
    Grouping,
    Order,
    Part,
    PeakAccount,
    SiteListing,
    State,
    Verdict,
)
from workloads.protocol.wire import from_plain

if TYPE_CHECKING:
    from typing_extensions import TypeForm

Slot = tuple[str, ...]
"""Key under which only the newest call matters: an older call with the same slot is dropped."""
Arguments = TypeVar("Arguments")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Method(Generic[Arguments, Value]):
    """One analysis of the open files: its name and the types of its arguments and its value."""

    name: str
    arguments: type[Arguments]
    """The type of the arguments, a frozen dataclass."""
    value: TypeForm[Value]
    apart: Callable[[Arguments], Slot] = lambda _arguments: ()
    """Returns the arguments that separate one slot from another; empty if all calls share a
    slot."""

    def parse_arguments(self, plain: Any) -> Arguments:
        """Parse the arguments of a call received over the pipe.

        Raises:
            WireError: the arguments do not have the declared type.
        """
        return cast(Arguments, from_plain(self.arguments, plain, self.name))

    def parse_value(self, plain: Any) -> Value:
        """Parse the value of an answer received over the pipe.

        Raises:
            WireError: the value does not have the declared type.
        """
        return cast(Value, from_plain(self.value, plain, self.name))


@dataclass(frozen=True, slots=True)
class Need(Generic[Arguments, Value]):
    """A method with its arguments: one request of a pane in its present state."""

    method: Method[Arguments, Value]
    arguments: Arguments

    @property
    def slot(self) -> Slot:
        """The slot that calls of this need belong to."""
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
class PeakArguments:
    device: int


PEAK = Method("peak", PeakArguments, PeakAccount)


@dataclass(frozen=True, slots=True)
class TimelineArguments:
    device: int
    width: int
    """Width of the chart in columns."""
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
    """Key of the layer; empty for the rest."""


PART = Method("part", PartArguments, Part)


@dataclass(frozen=True, slots=True)
class LayerSizesArguments:
    device: int
    event: int | None
    stacking: Stacking = "site"


LAYER_SIZES = Method("layer_sizes", LayerSizesArguments, tuple[LayerSize, ...])


@dataclass(frozen=True, slots=True)
class SiteHistoryArguments:
    device: int
    site: str
    """Key of the site."""
    width: int
    """Maximum number of stretches of events."""


SITE_HISTORY = Method("site_history", SiteHistoryArguments, SiteHistory)


@dataclass(frozen=True, slots=True)
class SitesArguments:
    device: int
    event: int | None
    path: tuple[str, ...] = ()
    """Path of the node whose children are listed."""
    grouping: Grouping = "site"
    order: Order = "bytes"
    search: str = ""
    regex: bool = False
    limit: int = 200


SITES = Method("sites", SitesArguments, SiteListing, apart=lambda arguments: arguments.path)


@dataclass(frozen=True, slots=True)
class FlameArguments:
    device: int
    event: int | None
    width: int
    """Width of the picture in cells."""
    path: tuple[str, ...] = ()
    """Path of the frame that has the whole width."""
    all_frames: bool = False


FLAME = Method("flame", FlameArguments, Flame)


@dataclass(frozen=True, slots=True)
class SizesArguments:
    device: int
    event: int | None
    path: tuple[str, ...]
    """Path of a frame of the flame view."""
    all_frames: bool = False
    limit: int = 20


SIZES = Method("sizes", SizesArguments, tuple[AllocationSize, ...])


@dataclass(frozen=True, slots=True)
class StackArguments:
    stack: int


STACK = Method("stack", StackArguments, tuple[Frame, ...])


@dataclass(frozen=True, slots=True)
class MapArguments:
    device: int
    event: int | None
    first: int
    """Place of the first line."""
    count: int
    """Number of lines."""
    width: int
    """Width of a line in cells."""
    unfolded: tuple[int, ...] = ()
    """Groups of segments that are unfolded, by the index of their first."""


@dataclass(frozen=True, slots=True)
class MapPage:
    """A page of lines of the segment map."""

    rows: tuple[RowPicture, ...]
    total: int
    """Number of lines in the whole map."""
    segments: int
    """Number of segments."""
    reserved: int
    """Bytes of all segments."""
    sites: tuple[SiteInUse, ...]
    """What is in use in all segments, by site: those with a layer by rank, then the others."""


MAP = Method("map", MapArguments, MapPage)


@dataclass(frozen=True, slots=True)
class StretchArguments:
    device: int
    event: int | None
    row: int
    start: int
    end: int
    """End of the address range that is drawn, exclusive."""
    width: int
    """Width of the picture in cells."""
    address: int
    """Address of the piece to describe."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An address range of one segment: its cells, and the piece at one address."""

    states: str
    used: str
    begins: str
    """The address range drawn as cells, in the letters and digits of :class:`RowPicture`."""
    piece: Piece | None
    """The piece at the requested address; ``None`` if nothing is mapped there."""
    frames: tuple[Frame, ...]
    """The piece's stack, innermost first, without C++ frames."""
    sites: str
    """The sites of the cells, as in :class:`RowPicture`."""
    in_use: tuple[SiteInUse, ...]
    """What is in use in the whole segment, by site, the most first."""


STRETCH = Method("stretch", StretchArguments, Stretch)


@dataclass(frozen=True, slots=True)
class PinningArguments:
    device: int
    event: int | None
    row: int
    most: int = 1
    """Maximum number of blocks to release."""


PINNING = Method("pinning", PinningArguments, Pinning | None)


@dataclass(frozen=True, slots=True)
class DifferenceArguments:
    device: int
    at_peak: bool = False
    grouping: Grouping = "site"
    limit: int = 300


@dataclass(frozen=True, slots=True)
class Changes:
    """The first rows of the difference between two files on one device."""

    difference: Difference
    more: int
    """Number of rows left out."""


DIFFERENCE = Method("difference", DifferenceArguments, Changes)


@dataclass(frozen=True, slots=True)
class ReportArguments:
    form: Literal["json", "markdown"]
    device: int | None = None
    event: int | None = None
    """An additional event whose state goes into the report; ``None`` for none."""
    top: int = 10
    at_peak: bool = True
    """Compares two files at their peaks if true, else at their ends."""


REPORT = Method("report", ReportArguments, str)

METHODS: dict[str, Method[Any, Any]] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Method)
}
"""All methods above, by name."""
