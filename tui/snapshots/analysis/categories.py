"""What an allocation is for, as far as the file tells it: its entry, its stack or an annotation.

A stack tells in which phase of a training step memory was asked for. That is not always what it
holds: a forward pass makes activations, and workspaces too. So a phase is called a phase, and only
what the file tells is called by torch's names (``torch.profiler._memory_profiler.Category``).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK, Stacks
from tui.snapshots.analysis.timeline import Cover
from tui.snapshots.model.results import BEFORE, NOT_TOLD
from tui.snapshots.model.snapshot import NEVER_TOLD, Frame, Snapshot, Trace
from workloads.protocol.frozen import frozen

_UNKNOWN = ("", "unknown")
_NAMES = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer_state": "optimizer state",
    "activation": "activations",
    "input": "inputs",
    "temporary": "temporaries",
    "autograd_detail": "autograd details",
}
_OPTIMIZER_STEP = "Optimizer.step#"
"""How torch names the annotation of a step, before the class of the optimizer."""


@frozen
class Category:
    """What allocations are for."""

    name: str
    """One of torch's names, a phase of a training step, or :data:`NOT_TOLD`."""
    told_by: str
    """What in the file says so, in a few words."""


UNTOLD = Category(NOT_TOLD, "neither category, annotation nor stack says what it is for")
_PARAMETERS = Category("parameters", "the stack moves or makes a module's parameters and buffers")
_STATE = Category("optimizer state", "the stack goes through the optimizer's set-up of its state")
_STEP = Category("optimizer step", "the stack goes through torch.optim: state or temporaries")
_GRADIENTS = Category("gradients", "the stack goes through autograd's AccumulateGrad")
_CLEARED = Category("gradients", "freed by zero_grad")
_WORKSPACE = Category("cuBLAS workspace", "the stack goes through cuBLAS's handle or workspace")
_BACKWARD = Category("backward pass", "the stack goes through autograd's backward pass")
_FORWARD = Category("forward pass", "the stack goes through a module's forward: kept or temporary")
_ACTIVATIONS = Category("activations", "made in a forward pass, freed by the backward pass")
_ANNOTATED = Category("optimizer step", f"made within the annotation {_OPTIMIZER_STEP}…")
_PROFILER = "the file's category key"

_NATIVE: tuple[tuple[tuple[str, ...], Category], ...] = (
    (("at::cuda::getCurrentCUDABlasHandle",), _WORKSPACE),
    (("at::cuda::getCUDABlasLtWorkspace",), _WORKSPACE),
    (("torch::autograd::", "AccumulateGrad"), _GRADIENTS),
    (("torch::autograd::Engine::",), _BACKWARD),
)
"""Of C++ frames: what all stands in the name."""
_STATE_MADE_IN = ("_init_group", "load_state_dict", "_process_value_according_to_param_policy")
_PYTHON: tuple[tuple[str, tuple[str, ...], Category], ...] = (
    (r"/optim/(?!lr_scheduler\.py)", ("zero_grad",), _CLEARED),
    (r"/optim/(?!lr_scheduler\.py)", _STATE_MADE_IN, _STATE),
    (r"/optim/(?!lr_scheduler\.py)", (), _STEP),
    (r"/autograd/|/_tensor\.py$", ("backward", "_engine_run_backward"), _BACKWARD),
    (r"/nn/modules/module\.py$", ("zero_grad",), _CLEARED),
    (r"/nn/modules/module\.py$", ("_apply", "to_empty", "_load_from_state_dict"), _PARAMETERS),
    (
        r"/nn/modules/module\.py$",
        ("_call_impl", "_wrapped_call_impl", "_slow_forward"),
        _FORWARD,
    ),
    (
        r"/nn/modules/(?!module\.py)|/nn/parameter\.py$",
        ("__init__", "reset_parameters"),
        _PARAMETERS,
    ),
)
"""Of frames of torch: the path behind its folder, the names, any where there are none."""
_PATHS = tuple((re.compile(f"/torch(?:{path})"), names, phase) for path, names, phase in _PYTHON)


class Categories:
    """Tells the category of the allocations of one device; each stack is looked at once.

    Args:
        snapshot: for what stood in the entries.
        stacks: of the snapshot.
        trace: of the device.
        table: of the same device.
        cover: gives its annotations; called only where a stack does not tell.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        stacks: Stacks,
        trace: Trace,
        table: Allocations,
        cover: Callable[[], Cover],
    ) -> None:
        self._table = table
        self._trace = trace
        self._stacks = stacks
        self._cover = cover
        self._told = [_told(name) for name in snapshot.categories]
        self._annotated = any(
            note.name.startswith(_OPTIMIZER_STEP) for note in snapshot.annotations
        )
        self._by_stack: dict[int, Category] = {0: UNTOLD, BEFORE_TRACE_STACK: UNTOLD}

    def of(self, row: int) -> Category:
        """The category of one allocation, by its row in the table."""
        start = self._table.start[row]
        if start != BEFORE:
            told = self._told[self._trace.category[start]]
            if told is not None:
                return told
        stack = self._table.stack[row]
        found = self._of_stack(stack)
        freed = self._freed_by(row, stack)
        if found is _FORWARD and freed in (_BACKWARD, _GRADIENTS):
            return _ACTIVATIONS
        # Most gradients are not copied by AccumulateGrad, but taken over as the engine made them.
        if found in (_BACKWARD, UNTOLD) and freed is _CLEARED:
            return _CLEARED
        if found is UNTOLD and start != BEFORE and self._annotated:
            time_us = self._trace.time_us[start]
            if time_us != NEVER_TOLD and self._cover().at(time_us).startswith(_OPTIMIZER_STEP):
                return _ANNOTATED
        return found

    def _of_stack(self, stack: int) -> Category:
        found = self._by_stack.get(stack)
        if found is None:
            phases = map(phase_of, self._stacks.of(stack))
            # The innermost: a forward pass that a closure of the optimizer calls is a forward pass.
            found = next((phase for phase in phases if phase is not None), UNTOLD)
            self._by_stack[stack] = found
        return found

    def _freed_by(self, row: int, stack: int) -> Category:
        """The phase that freed it; :data:`UNTOLD` where the file has no stack of that."""
        free = self._table.requested[row]
        if not 0 <= free < self._table.events:
            return UNTOLD
        # Without a stack of its own a free repeats that of its allocation.
        freed_by = self._trace.stack[free]
        return UNTOLD if freed_by == stack else self._of_stack(freed_by)


def _told(name: str) -> Category | None:
    """What the key ``category`` of an entry says; ``None`` where it says nothing."""
    plain = name.strip().lower()
    return None if plain in _UNKNOWN else Category(_NAMES.get(plain, plain), _PROFILER)


def phase_of(frame: Frame) -> Category | None:
    """The phase of a training step that a frame of torch belongs to; ``None`` for all others."""
    name = frame.name
    if "::" in name:
        return next(
            (phase for parts, phase in _NATIVE if all(part in name for part in parts)), None
        )
    path = frame.filename.replace("\\", "/")
    if "/torch/" not in path:
        return None
    return next(
        (
            phase
            for pattern, names, phase in _PATHS
            if (not names or name in names) and pattern.search(path)
        ),
        None,
    )
