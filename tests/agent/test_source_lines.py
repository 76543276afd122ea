"""The lines of a program that add to a variable, and those that take from it."""

from __future__ import annotations

import pytest

from workloads.agent.source_lines import VariableUses, find_uses, nested_codes


def uses(program: str, name: str, *, collection: bool) -> tuple[int | None, bool, int | None]:
    """Return the adding line, whether it enlarges, and the emptying line of a program's text."""
    code = nested_codes(compile(program, "train.py", "exec"))
    found: VariableUses = find_uses(name, code, collection=collection)
    adds, empties = found.adds, found.empties
    return adds and adds[1], found.enlarges, empties and empties[1]


@pytest.mark.parametrize(
    ("program", "line", "enlarges"),
    [
        ("self.h = torch.cat([self.h, x])", 1, True),
        ("parts = [self.h, x]\nself.h = torch.vstack(\n    parts,\n)", 2, True),
        ("new = torch.cat([self.h, x])\nself.h = new", 2, True),
        ("self.g, self.h = torch.cat([self.g, k]), torch.cat([self.h, v])", 1, True),
        ("h = F.pad(h, (0, 1))", 1, True),
        ("h = torch.cat(chunks)\nprint(h)", 1, False),
        ("y = torch.cat([a, b])\nh = h + layer(y)", 2, False),
        ("h = torch.zeros(3)\nfor x in xs:\n    h = layer(h)", 3, False),
    ],
)
def test_a_tensor_that_a_line_joins_to_itself_is_reported(
    program: str, line: int, enlarges: bool
) -> None:
    assert uses(program, "h", collection=False) == (line, enlarges, None)


FILL = "buf = []\nfor x in xs:\n    buf.append(x)\n"


@pytest.mark.parametrize(
    ("program", "line", "empties"),
    [
        (FILL, 3, None),
        (FILL + "    if len(buf) > 3:\n        buf.clear()", 3, 5),
        (FILL + "    if len(buf) > 3:\n        buf = []", 3, 5),
        (FILL + "    buf = buf[-3:]", 3, 4),
        (FILL + "    del buf[:-3]", 3, 4),
        (FILL + "    buf.pop(0)", 3, 4),
        ("for epoch in epochs:\n    buf = []\n    for x in xs:\n        buf.append(x)", 4, 2),
        ("buf = []\nfor x in xs:\n    buf += [f(x)]", 3, None),
        ("buf = ()\nfor x in xs:\n    buf = (*buf, f(x))", 3, None),
        ("buf = []\nfor x in xs:\n    buf = [*buf, f(x)]", 3, None),
        ("buf = {}\nfor x in xs:\n    buf |= {x: f(x)}", 3, None),
        (FILL + "    buf = buf[-3:] + [x]", 3, 4),
        ("buf, new = [], []\nfor x in xs:\n    new.append([x])\n    buf += new", 4, None),
        (
            "class A:\n"
            " def __init__(self):\n"
            "  self.buf = []\n"
            " def reset(self):\n"
            "  self.buf = []\n"
            " def add(self, x):\n"
            "  self.buf.append(x)",
            7,
            5,
        ),
        (FILL + "for buf in others:\n    print(buf)", 3, None),
    ],
)
def test_a_line_that_empties_a_list_is_reported(
    program: str, line: int, empties: int | None
) -> None:
    assert uses(program, "buf", collection=True) == (line, True, empties)


def test_a_collection_that_a_call_returns_has_no_line_that_adds() -> None:
    assert uses("buf = torch.load(path)", "buf", collection=True) == (1, False, None)


def test_all_lines_that_add_are_found_with_the_other_names_in_them() -> None:
    program = "buf = []\nfor x in xs:\n    buf.append(x)\n    buf.append(float(y))\n    print(buf)"
    found = find_uses("buf", nested_codes(compile(program, "train.py", "exec")), collection=True)
    assert [line.place[1] for line in found.adding] == [3, 4]
    first, second = found.adding
    assert {"x"} <= first.names
    assert {"y", "float"} <= second.names
    assert "buf" not in first.names | second.names


def test_lines_with_the_key_of_an_item_are_the_ones_that_add() -> None:
    program = "d['a'].append(x)\nd['b'].append(y)\nd['b'].append(z)"
    code = nested_codes(compile(program, "train.py", "exec"))
    found = find_uses("d", code, collection=True, key="b")
    assert [line.place[1] for line in found.adding] == [2, 3]
