"""Time and place of a failure in the first line of its explanation."""

from __future__ import annotations

import pytest

from tests.explain.scenes import (
    BACKWARD,
    FORWARD,
    PROGRAM,
    TRAIN,
    container,
    evidence,
    growing,
    inventory,
    part,
)
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import ThreadStack

LOSSES = container("losses", 6080, 190, graphs=190)
MODEL = part("parameters", 16)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, "OOM at step 190, train.py:15 in train. "),
        ({"step": 0}, "OOM before any optimizer step, train.py:15 in train. "),
        ({"step": None}, "OOM at train.py:15 in train. "),
        (
            {"stack": (), "thread": None, "threads": (ThreadStack("M", False, True, BACKWARD),)},
            "OOM at step 190, in backward, called from train.py:15 in train. ",
        ),
        ({"thread": "loader"}, "OOM at step 190, in thread loader, train.py:15 in train. "),
        ({"stack": (), "threads": ()}, "OOM at step 190, at an unrecorded line. "),
        (
            {"stack": (Frame(PROGRAM, 3, "<module>"),), "step": None},
            "OOM at train.py:3. ",
        ),
    ],
)
def test_place_and_step(more: dict[str, object], place: str) -> None:
    steps = growing(100, 32, 190)
    found = evidence(inventory(MODEL, LOSSES, steps=steps), **{"step": 190, **more})
    assert explain(found).line.startswith(f"{place}Leak: losses")


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("/home/ann/miniconda3/envs/x/lib/python3.10/site-packages/mine/model.py", "train.py:15"),
        ("/usr/lib/python3/dist-packages/mine/model.py", "train.py:15"),
        ("/usr/lib/python3.12/contextlib.py", "train.py:15"),
        ("<frozen runpy>", "train.py:15"),
        ("/home/ann/src/mine/model.py", "model.py:7"),
        ("<stdin>", "<stdin>:7"),
    ],
)
def test_the_users_own_frame(inner: str, shown: str) -> None:
    stack = (*FORWARD[:2], Frame(inner, 7, "step"), TRAIN)
    assert explain(evidence(stack=stack)).line.startswith(f"OOM at {shown}")
