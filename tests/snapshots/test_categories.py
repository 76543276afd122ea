"""What an allocation is for: only what the file tells, with what tells it."""

from __future__ import annotations

from typing import Any

import pytest

from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.layers import phase_of
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.pictures import NO_CATEGORY, REST
from tui.snapshots.read.normalise import normalise

TORCH = "/opt/venv/lib/python3.12/site-packages/torch/"
USER = {"filename": "/home/ann/train.py", "line": 9, "name": "main"}
CALL = {"filename": f"{TORCH}nn/modules/module.py", "line": 1780, "name": "_call_impl"}
STEP = {"filename": f"{TORCH}optim/adamw.py", "line": 230, "name": "step"}
INIT_GROUP = {"filename": f"{TORCH}optim/adamw.py", "line": 120, "name": "_init_group"}
APPLY = {"filename": f"{TORCH}nn/modules/module.py", "line": 930, "name": "_apply"}
ENGINE = {"filename": "??", "line": 0, "name": "torch::autograd::Engine::evaluate_function(...)"}
ACCUMULATE = {"filename": "??", "line": 0, "name": "torch::autograd::AccumulateGrad::apply(...)"}
BACKWARD = {"filename": f"{TORCH}autograd/graph.py", "line": 820, "name": "_engine_run_backward"}


def told(
    frames: list[Any],
    *,
    freed_by: list[Any] | None = None,
    category: str | None = None,
    annotation: str = "",
) -> tuple[str, str]:
    """Return the category of one new allocation and the evidence for it."""
    entry: dict[str, Any] = {"action": "alloc", "addr": 512, "size": 100, "stream": 0}
    entry |= {"frames": frames, "time_us": 50}
    if category is not None:
        entry["category"] = category
    trace = [entry]
    for action in ("free_requested", "free_completed"):
        free = frames if freed_by is None else freed_by
        trace.append({**entry, "action": action, "frames": free, "time_us": 90})
    notes = [
        {"stage": stage, "name": annotation, "device": 0, "time_us": time_us}
        for stage, time_us in (("START", 40), ("END", 60))
    ]
    raw = {
        "segments": [],
        "device_traces": [trace],
        "external_annotations": notes if annotation else [],
    }
    device = Analysis(normalise(raw)).devices[0]
    ((name, by, size),) = device.part(0, "site", device.timeline(3).layers[0].key).categories
    assert size == 100
    return name, by


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([APPLY, USER], "parameters"),
        ([INIT_GROUP, STEP, USER], "optimizer state"),
        ([STEP, USER], "optimizer step"),
        ([ACCUMULATE, ENGINE], "gradients"),
        ([ENGINE], "backward pass"),
        ([BACKWARD, USER], "backward pass"),
        ([CALL, USER], "forward pass"),
        # The innermost tells: a closure of the optimizer calls the model.
        ([CALL, USER, STEP, USER], "forward pass"),
        # What is computed anew in a backward pass is a forward pass.
        ([CALL, BACKWARD, USER], "forward pass"),
        ([USER], NO_CATEGORY),
        ([], NO_CATEGORY),
    ],
)
def test_the_phase_of_a_stack(frames: list[Any], name: str) -> None:
    assert told(frames)[0] == name


def test_what_the_backward_pass_frees_is_an_activation() -> None:
    name, by = told([CALL, USER], freed_by=[ENGINE])
    assert (name, by) == ("activations", "made in a forward pass, freed by the backward pass")
    # A free without a stack of its own repeats that of its allocation.
    assert told([CALL, USER], freed_by=[CALL, USER])[0] == "forward pass"
    assert told([CALL, USER], freed_by=[USER])[0] == "forward pass"


def test_what_zero_grad_frees_is_a_gradient() -> None:
    clear = {"filename": f"{TORCH}optim/optimizer.py", "line": 1050, "name": "zero_grad"}
    assert told([ENGINE], freed_by=[clear, USER]) == ("gradients", "freed by zero_grad")
    # A backward pass has no Python stack, but what frees its gradients has.
    assert told([], freed_by=[clear, USER])[0] == "gradients"
    assert told([CALL, USER], freed_by=[clear, USER])[0] == "forward pass"
    assert told([INIT_GROUP, STEP], freed_by=[clear, USER])[0] == "optimizer state"


def test_a_workspace_that_a_forward_pass_asks_for_first_is_none_of_its_activations() -> None:
    handle = {"filename": "??", "line": 0, "name": "at::cuda::getCurrentCUDABlasHandle(bool)"}
    assert told([handle, CALL, USER])[0] == "cuBLAS workspace"
    assert told([handle, ENGINE])[0] == "cuBLAS workspace"
    light = {"filename": "??", "line": 0, "name": "at::cuda::getCUDABlasLtWorkspace()"}
    assert told([light, CALL, USER])[0] == "cuBLAS workspace"


def test_the_profiler_s_category_goes_before_the_stack() -> None:
    assert told([CALL, USER], category="parameter") == ("parameters", "the file's category key")
    assert told([USER], category="autograd_detail")[0] == "autograd details"
    assert told([USER], category="unknown")[0] == NO_CATEGORY
    assert told([APPLY, USER], category="unknown")[0] == "parameters"


def test_an_annotation_gives_the_category_if_no_stack_does() -> None:
    assert told([USER], annotation="Optimizer.step#Lamb.step")[0] == "optimizer step"
    assert told([], annotation="Optimizer.step#Lamb.step")[0] == "optimizer step"
    assert told([CALL], annotation="Optimizer.step#Lamb.step")[0] == "forward pass"
    assert told([USER], annotation="ProfilerStep#3")[0] == NO_CATEGORY


@pytest.mark.parametrize("bad", [7, [], {}, "x" * 1000])
def test_a_category_that_is_no_name_is_counted_and_left_out(bad: Any) -> None:
    entry = {"action": "alloc", "addr": 512, "size": 100, "frames": [], "category": bad}
    snapshot = normalise({"segments": [], "device_traces": [[entry] * 3]})
    assert "categories that are no short names: 3" in snapshot.notes
    assert snapshot.categories == ("",)


def test_a_user_s_own_code_is_never_taken_for_torch_s() -> None:
    for name in ("_call_impl", "_apply", "_init_group", "backward"):
        assert phase_of(Frame("/home/ann/optim/module.py", 1, name)) is None
    windows = Frame(r"C:\venv\Lib\site-packages\torch\nn\modules\module.py", 1, "_apply")
    phase = phase_of(windows)
    assert phase is not None
    assert phase.name == "parameters"


def test_a_timeline_by_category_has_a_layer_for_each() -> None:
    def entry(action: str, address: int, frames: list[Any]) -> dict[str, Any]:
        return {"action": action, "addr": address, "size": 512, "frames": frames, "time_us": 1}

    trace = [entry("alloc", 512, [APPLY]), entry("alloc", 1024, [CALL]), entry("alloc", 2048, [])]
    segments = [
        {
            "device": 0,
            "address": 512,
            "total_size": 512 * 4,
            "blocks": [
                {"address": 512, "size": 512, "requested_size": 512, "state": "active_allocated"},
                {"address": 1024, "size": 512, "requested_size": 512, "state": "active_allocated"},
                {"address": 1536, "size": 512, "requested_size": 0, "state": "inactive"},
                {"address": 2048, "size": 512, "requested_size": 512, "state": "active_allocated"},
            ],
        }
    ]
    device = Analysis(normalise({"segments": segments, "device_traces": [trace]})).devices[0]
    picture = device.timeline(3, stacking="category")
    assert {layer.label: layer.bytes for layer in picture.layers} == {
        "parameters": (512, 512, 512),
        "forward pass": (0, 512, 512),
        NO_CATEGORY: (0, 0, 512),
    }
    assert all(layer.key != REST for layer in picture.layers)
