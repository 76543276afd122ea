"""Variables whose value is left from the previous iteration of a loop, by the running bytecode."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from workloads.agent.leftovers import RunningFunctions, is_left_over
from workloads.agent.reach import VariablePlace


def answers(program: str) -> list[bool]:
    """Execute a program; return whether ``out`` is left over, at each call of ``f`` with a value.

    The program defines ``g`` and calls ``f`` in it.
    """
    known: list[bool] = []

    def f(*_: object) -> int:
        frame = sys._getframe(1)
        if "out" in frame.f_locals:
            known.append(is_left_over("out", frame.f_code, frame.f_lasti))
        return 1

    names: dict[str, Any] = {"f": f, "use": lambda *_: None}
    exec(compile(program, "train.py", "exec"), names)
    names["g"]()
    return known


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def g():\n for x in range(3):\n  out = f(x)\n  use(out)", [True, True]),
        ("def g():\n for x in range(3): out = f(x); use(out)", [True, True]),
        ("def g():\n x = 3\n while x:\n  x -= 1\n  h = f(x)\n  out = use(h)", [True, True]),
        # The next one is computed while the present one is needed.
        ("def g():\n for x in range(3):\n  out = use(x)\n  f(x)\n  use(out)", [False] * 3),
        ("def g():\n out = 0\n for x in range(3):\n  out = f(out)", [False] * 3),
        ("def g():\n for x in range(3):\n  if x: use(out)\n  out = f(x)", [False] * 2),
        ("def g():\n for x in range(3):\n  out = f(x) if not x else f(out)", [False] * 2),
        ("def g():\n for x in range(3):\n  out = x\n  out = f(out)", [False] * 3),
        # Deleted, an argument, in a closure, and without a loop.
        ("def g():\n for x in range(3):\n  out = f(x)\n  use(out)\n  if x: del out", [False]),
        ("def g(out=0):\n for x in range(3):\n  out = f(x)", [False] * 3),
        ("def g():\n for x in range(3):\n  out = f(x)\n  use(lambda: out)", [False] * 2),
        ("def g():\n out = f(1)\n f(out)", [False]),
    ],
)
def test_a_value_is_left_over_if_nothing_reads_it_before_the_next_assignment(
    program: str, expected: list[bool]
) -> None:
    assert answers(program) == expected


def running(program: str, names: dict[str, Any]) -> list[str]:
    """Execute a module; return what is found for its ``out`` at each call of ``f``."""
    found: list[str] = []

    def f() -> int:
        frame = sys._getframe(1)
        functions = RunningFunctions()
        functions.add([frame])
        line = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        place = VariablePlace("out['logits']", "global of train.py", line, lambda: iter(()))
        found.append(functions.find_left_over(place) if "out" in frame.f_locals else "no value")
        return 1

    names["f"] = f
    exec(compile(program, "/home/ann/train.py", "exec"), names)
    return found


LOOP = "for x in range(2):\n out = f()\n"


def test_a_global_is_left_over_in_a_script_unless_a_function_may_read_it() -> None:
    script = {"__file__": "/home/ann/train.py"}
    assert running(LOOP, dict(script)) == ["no value", "out"]
    assert running(LOOP + "def later(): return out\n", dict(script)) == ["no value", ""]
    # Typed code may have its value from an earlier command.
    assert running(LOOP, {"out": 3}) == ["", ""]


def test_frames_at_the_same_line_are_not_told_apart() -> None:
    frame = sys._getframe()
    functions = RunningFunctions()
    functions.add([frame, frame])
    line = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    place = VariablePlace("frame", "local", line, lambda: iter(()))
    assert functions.find_left_over(place) == ""
