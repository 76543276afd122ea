"""Which of several lines that add to a collection added most of its bytes.

A line is judged by the tensors that its names have now: ``history.append(x)`` by ``x``.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence, Tuple

from .reach import VariablePlace
from .source_lines import AddingLine, CodePlace

SMALLER = 8
"""How many times larger another line's tensor is, if a line is not where the bytes come from."""

_Name = Tuple[str, str, str]
"""The file and the name of a running function, and of a variable in it."""


class LikelyLines:
    """Ranks lines by the tensors with a name in the running functions.

    Args:
        named: all named tensors, with their places.
        storage: returns the address and the bytes of a tensor's storage; ``None`` without one.
        has_graph: returns whether a tensor has a graph.
    """

    def __init__(
        self,
        named: Iterable[tuple[VariablePlace, Any]],
        storage: Callable[[Any], tuple[int, int] | None],
        has_graph: Callable[[Any], bool],
    ) -> None:
        self._sizes: dict[_Name, tuple[int, bool]] = {}
        """The bytes of each tensor, and whether it has a graph."""
        for place, tensor in named:
            found = storage(tensor)
            if place.frame is not None and found is not None:
                filename, _, function = place.frame
                self._sizes[filename, function, place.name] = found[1], has_graph(tensor)

    def rank(self, adding: Sequence[AddingLine], *, has_graphs: bool) -> list[CodePlace]:
        """Return the lines that may have added most of a collection's bytes, the likeliest first.

        A line is likely by the largest tensor that its names have, and left out if that is far
        smaller than another line's; a tensor whose graph is kept as well can be of any size.
        Without any tensor the first line is the likeliest.

        Args:
            adding: the lines, at least one.
            has_graphs: tensors of the collection have graphs.
        """
        sizes = [self._find_size(line, has_graphs=has_graphs) for line in adding]
        known = [(line, size) for line, size in zip(adding, sizes) if size is not None]
        plain = [size for _, size in known if size < float("inf")]
        most = max(plain) if plain else 0.0
        likely = [pair for pair in known if SMALLER * pair[1] >= most]
        likely.sort(key=lambda pair: -pair[1])
        return [line.place for line, _ in likely] or [adding[0].place]

    def _find_size(self, line: AddingLine, *, has_graphs: bool) -> float | None:
        """Return the bytes of the largest tensor named in a line of a running function.

        Return infinity for one whose graph the collection keeps, and ``None`` without a tensor.
        """
        code, _ = line.place
        keys = [(code.co_filename, code.co_name, name) for name in line.names]
        found = [self._sizes[key] for key in keys if key in self._sizes]
        if has_graphs and any(has_graph for _, has_graph in found):
            return float("inf")
        return float(max(size for size, _ in found)) if found else None
