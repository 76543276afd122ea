"""Handwritten evidence: the contents of an inventory, a history, an error text and a watch."""

from __future__ import annotations

from typing import Any

from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explain import explain
from tui.snapshots.explain.frames import Frame, goes_through
from tui.snapshots.explain.inventory import (
    SCHEMA,
    Container,
    Inventory,
    ModelPart,
    NamedBytes,
    Role,
    StepMemory,
    ThreadStack,
    Variable,
)

MIB, GIB = 1 << 20, 1 << 30
PROGRAM = "/home/ann/work/train.py"
PACKAGES = "/opt/venv/lib/python3.12/site-packages/torch"

TRAIN = Frame(PROGRAM, 15, "train")
FORWARD = (
    Frame(f"{PACKAGES}/nn/modules/linear.py", 134, "forward"),
    Frame(f"{PACKAGES}/nn/modules/module.py", 1789, "_call_impl"),
    TRAIN,
)
BACKWARD = (
    Frame(f"{PACKAGES}/autograd/graph.py", 979, "_engine_run_backward"),
    Frame(f"{PACKAGES}/_tensor.py", 623, "backward"),
    TRAIN,
)
STATE = (
    Frame(f"{PACKAGES}/optim/adam.py", 180, "_init_group"),
    Frame(f"{PACKAGES}/optim/adam.py", 240, "step"),
    TRAIN,
)
FOREACH = (
    Frame(f"{PACKAGES}/optim/adam.py", 600, "_multi_tensor_adam"),
    Frame(f"{PACKAGES}/optim/adam.py", 240, "step"),
    TRAIN,
)
TO_CUDA = (
    Frame(f"{PACKAGES}/nn/modules/module.py", 950, "_apply"),
    Frame(f"{PACKAGES}/nn/modules/module.py", 1050, "cuda"),
    TRAIN,
)
DEEPCOPY = (Frame("/usr/lib/python3.12/copy.py", 140, "deepcopy"), TRAIN)
LOAD = (Frame(f"{PACKAGES}/serialization.py", 1400, "load"), TRAIN)


def part(
    role: Role, mib: int, owner: str = "model (GPT)", count: int = 12, **more: Any
) -> ModelPart:
    largest = (NamedBytes("head.weight", 64 * MIB),)
    names = {"dtypes": ("float32",), "largest": largest, **more}
    return ModelPart(role, owner, mib * MIB, count, **names)


def container(name: str, mib: int, tensors: int, **more: Any) -> Container:
    facts: dict[str, Any] = {
        "kind": "list",
        "length": tensors,
        "graphs": 0,
        "where": TRAIN,
        "scope": "local of train()",
        "adds": Frame(PROGRAM, 13, "train"),
        "enlarges": True,
        **more,
    }
    return Container(name=name, tensors=tensors, bytes=mib * MIB, **facts)


def variable(name: str, mib: int, nodes: int = 0, **more: Any) -> Variable:
    facts: dict[str, Any] = {
        "shape": (mib, MIB // 4),
        "dtype": "float32",
        "where": TRAIN,
        "scope": "local of train()",
        "adds": Frame(PROGRAM, 12, "train"),
        **more,
    }
    return Variable(name=name, bytes=mib * MIB, graph_nodes=nodes, **facts)


def inventory(
    *held: ModelPart | Container | Variable,
    other: int = 0,
    remainder: int = 0,
    steps: tuple[tuple[int, int], ...] = (),
    main: tuple[Frame, ...] = (),
    asks: bool = True,
) -> Inventory:
    """Return an inventory with these parts; other, remainder and steps in MiB."""
    whole = sum(each.bytes for each in held) + (other + remainder) * MIB
    stack = main or FORWARD
    return Inventory(
        schema=SCHEMA,
        device=0,
        allocated=whole,
        seconds=0.1,
        objects=1000,
        parts=tuple(each for each in held if isinstance(each, ModelPart)),
        containers=tuple(each for each in held if isinstance(each, Container)),
        variables=tuple(each for each in held if isinstance(each, Variable)),
        other_bytes=other * MIB,
        other_count=other and 10,
        remainder=remainder * MIB,
        threads=(ThreadStack("MainThread", asks, True, stack),),
        skipped=(),
        steps=tuple(StepMemory(step, mib * MIB) for step, mib in steps),
        step=steps[-1][0] if steps else 0,
    )


def evidence(taken: Inventory | None = None, **more: Any) -> Evidence:
    """Return a device of 8 GiB that this process fills; ``more`` replaces its fields.

    Without an inventory, 7.4 GiB is live. A context of 500 MiB is always present.
    """
    allocated = taken.allocated if taken is not None else 7 * GIB + 400 * MIB
    reserved = more.get("reserved", allocated + 4 * MIB)
    facts: dict[str, Any] = {
        "device": 0,
        "requested": 64 * MIB,
        "needed": 64 * MIB,
        "allocated": allocated,
        "rounding": 0,
        "reserved": reserved,
        "step": None if taken is None else taken.step,
        "total": reserved + 510 * MIB,
        "free": 10 * MIB,
        "stuck": max(0, reserved - allocated),
        "largest": min(4 * MIB, max(0, reserved - allocated)),
        "process": reserved + 500 * MIB,
        "others": 0,
        "stack": FORWARD,
        "threads": () if taken is None else taken.threads,
        "inventory": taken,
        "expandable": False,
        "text": True,
        "watched": taken is not None,
    }
    return Evidence(**{**facts, **more})


def growing(begin: int, by: int, steps: int) -> tuple[tuple[int, int], ...]:
    """Return the allocated bytes after some of the steps, given in MiB."""
    return tuple((step, begin + by * step) for step in range(1, steps + 1, max(1, steps // 12)))


def check_explanation(found: Evidence, cause: str, line: str, advice: str) -> None:
    """Check the cause, the conclusion, the first advice, and rules that all explanations obey."""
    explanation = explain(found)
    assert explanation.cause == cause
    assert line in explanation.conclusion
    assert advice in explanation.advice[0].what
    assert sum(row.bytes for row in explanation.account) == explanation.used
    whats = " ".join(each.what for each in explanation.advice)
    assert "allocated before the recording" not in whats
    if found.watched:
        assert "gpu-workbench watch -- python" not in whats
    of_batch = ("activations", "temporaries", "other tensors", "full", "unknown")
    of_model = cause.startswith("larger than") and goes_through(found.stack, "/torch/nn/modules/")
    if cause not in of_batch and not explanation.backward and not of_model:
        assert "a smaller batch" not in whats
