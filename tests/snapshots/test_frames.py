"""Whose code a frame is, and which line an allocation is put down to."""

from __future__ import annotations

import pytest

from tests.snapshots.scenes import MIB
from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK, Stacks
from tui.snapshots.explain.frames import Frame, classify_frame, format_frame
from tui.snapshots.model.results import FrameKind
from tui.snapshots.model.snapshot import Snapshot
from tui.snapshots.read.normalise import normalise


@pytest.mark.parametrize(
    ("filename", "kind"),
    [
        ("/home/ann/work/train.py", "user"),
        ("train.py", "user"),
        ("C:\\research\\run\\client.py", "user"),
        ("<stdin>", "user"),
        ("/tmp/ipykernel_12/345.py", "user"),
        ("<ipython-input-3-12ab>", "user"),
        ("/home/ann/torchwork/optim/step.py", "user"),
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "framework"),
        ("C:\\run\\.venv\\lib\\site-packages\\transformers\\generation.py", "framework"),
        ("/usr/lib/python3/dist-packages/apex/optim.py", "framework"),
        ("/home/ann/pytorch/torch/nn/modules/conv.py", "framework"),
        ("/home/ann/pytorch/torch/_tensor.py", "framework"),
        ("/tmp/torchinductor_ann/ab/cab.py", "framework"),
        ("<eval_with_key>.12", "framework"),
        ("/opt/venv/bin/torchrun", "framework"),
        ("/usr/lib/python3.10/threading.py", "interpreter"),
        ("C:\\Users\\ann\\miniconda3\\envs\\t\\lib\\runpy.py", "interpreter"),
        ("C:\\Program Files\\Python311\\Lib\\contextlib.py", "interpreter"),
        ("<frozen importlib._bootstrap>", "interpreter"),
        ("??", "native"),
        ("", "native"),
        ("/opt/torch/lib/libtorch_cuda.so", "native"),
        ("../aten/src/ATen/native/TensorFactories.cpp", "native"),
        ("./misc/../sysdeps/unix/sysv/linux/x86_64/clone3.S", "native"),
    ],
)
def test_kind_of_a_frame(filename: str, kind: FrameKind) -> None:
    assert classify_frame(Frame(filename, 3, "call")) == kind


def snapshot_with(*stacks: list[tuple[str, int, str]]) -> Snapshot:
    trace = [
        {
            "action": "alloc",
            "addr": number * MIB,
            "size": 512,
            "stream": 0,
            "frames": [
                {"filename": filename, "line": line, "name": name} for filename, line, name in stack
            ],
        }
        for number, stack in enumerate(stacks, 1)
    ]
    return normalise({"segments": [], "device_traces": [trace]})


NATIVE = ("??", 0, "at::empty")
TORCH = ("/x/site-packages/torch/nn/linear.py", 1, "forward")
MODEL = ("/w/model.py", 20, "block")
MAIN = ("/w/main.py", 7, "main")


def test_the_site_is_the_innermost_frame_of_the_user() -> None:
    snapshot = snapshot_with([NATIVE, TORCH, MODEL, TORCH, TORCH, MAIN], [NATIVE, TORCH], [NATIVE])
    stacks = Stacks(snapshot)
    numbers = list(snapshot.devices[0].trace.stack)
    assert [stacks.site(number).label for number in numbers] == [
        "model.py:20 block",
        "linear.py:1 forward",
        "no Python frame (C++ only)",
    ]
    path = [
        (format_frame(snapshot.frames[frame]), folded) for frame, folded in stacks.path(numbers[0])
    ]
    assert path == [("model.py:20 block", 2), ("main.py:7 main", 2)]


def test_without_a_stack_the_site_says_so() -> None:
    stacks = Stacks(snapshot_with([]))
    assert stacks.site(0).label == "no stack recorded"
    assert "before the recording" in stacks.site(BEFORE_TRACE_STACK).label
    assert stacks.of(BEFORE_TRACE_STACK) == ()


def test_a_frame_of_c_plus_plus_is_labelled_by_its_name() -> None:
    assert format_frame(Frame("??", 0, "at::empty")) == "at::empty"
    assert format_frame(Frame("C:\\a\\b.py", 3, "f")) == "b.py:3 f"
