"""Tables of variants: what their ratios are, and none where there is no clear difference."""

from __future__ import annotations

from tui.kit.lines import plain
from tui.runs.views.variant_table import NOTE, UNCLEAR, finding_table_lines, hide_unclear_ratios
from workloads.protocol.results import Cell, DataColumn, Table


def _table(*rows: tuple[Cell, ...], ratio: str = "speed-up") -> Table:
    names = ("variant", ratio, "interval", "verdict")
    return Table("ways", "two ways", tuple(map(DataColumn, names)), rows)


FIRST = ("slow", 1.0, "", "")
FASTER = ("fast", 2.0, "1.9 to 2.1", "faster")
ALIKE = ("other", 0.994, "0.652 to 4.08", "unclear")


def _draw(*tables: Table, cells: int = 120) -> str:
    return "\n".join(map(plain, finding_table_lines(tables, {}, cells)))


def test_a_ratio_whose_difference_is_unclear_is_no_number() -> None:
    for ratio in ("speed-up", "more time"):
        assert hide_unclear_ratios(_table(FIRST, FASTER, ALIKE, ratio=ratio)).rows == (
            FIRST,
            FASTER,
            ("other", None, "0.652 to 4.08", "unclear"),
        )
    drawn = _draw(_table(FIRST, ALIKE), cells=200)
    assert "0.994" not in drawn
    assert drawn.endswith(f"{NOTE} {UNCLEAR}")


def test_several_tables_of_variants_share_one_note() -> None:
    drawn = _draw(_table(FIRST, FASTER), _table(FIRST, FASTER))
    assert drawn.count(NOTE) == 1
    assert UNCLEAR not in drawn


def test_a_table_without_verdicts_is_drawn_as_it_is() -> None:
    sweep = Table("sweep", "sweep", (DataColumn("n"), DataColumn("speed-up", "x")), ((32.0, 0.9),))
    assert hide_unclear_ratios(sweep) == sweep
    assert NOTE not in _draw(sweep)
