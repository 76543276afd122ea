"""Remedies for the memory of the model: parameters, gradients, optimizer state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from tui.core.text.numbers import round_size
from tui.snapshots.explain.account import (
    describe_models,
    find_kept_models,
    find_kept_optimizers,
    find_models,
    find_stray_gradients,
    list_owners,
)
from tui.snapshots.explain.allocator_advice import FailedRequest
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.explain.frames import goes_through
from tui.snapshots.explain.inventory import split_owner
from tui.snapshots.explain.lead import find_large_gradient

_VALUES = {
    **dict.fromkeys(("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "SparseAdam"), 2),
    **dict.fromkeys(("SGD", "RMSprop", "Adagrad"), 1),
}
"""Values that torch's optimizers keep for each parameter by default, SGD with momentum."""
_SMALL_STATE = re.compile(r"8bit|4bit|fp8|adafactor|lbfgs", re.IGNORECASE)
"""Classes of optimizers that have little state already, or whose state has another size."""
_CHECKPOINT = re.compile(r"state|ckpt|checkpoint|weights", re.IGNORECASE)
_WIDE = ("float32", "float64")
_EMBEDDING = re.compile(r"emb|table|wte|token", re.IGNORECASE)


def advise_on_parameters(request: FailedRequest) -> Iterator[Remedy]:
    """Yield remedies for parameters and buffers."""
    stack = tuple(chain(*request.evidence.stacks))
    who = list_owners(request.evidence, "parameters")
    models = find_kept_models(request.evidence)
    loaded = any(
        variable.bytes and _CHECKPOINT.search(variable.name)
        for variable in request.evidence.named[:1]
    )
    if goes_through(stack, "/torch/serialization.py") or loaded:
        yield Remedy(
            f"load the checkpoint to the host: torch.load(…, map_location='cpu'){request.line}",
            "on the GPU, it is a second copy beside the model",
        )
    if goes_through(stack, "/copy.py", "deepcopy") or goes_through(stack, "/swa_utils.py"):
        yield Remedy(
            f"keep the copy of the model on the host or in lower precision{request.line}",
            f"an average (EMA) or a reference model doubles {request.size('parameters')}",
        )
    elif models is not None:
        state = request.account.of("optimizer state")
        yield Remedy(
            f"free each {models.each}{' and its optimizer' if state else ''} after its use, or "
            "store its state_dict on the host with .cpu()",
            f"{models.number} {models.all} are on the device at once",
        )
    elif len(find_models(request.evidence)) > 1 or len(who) > len(find_models(request.evidence)):
        yield Remedy(
            "delete the old model (del, then gc.collect()) before the next one is loaded, or "
            "keep one of them on the host",
            f"{describe_models(request.evidence)} hold {request.size('parameters')} together",
        )
    kinds = request.dtypes("parameters")
    if not kinds or any(kind in _WIDE for kind in kinds):
        as_type = f" as {kinds[0]}" if kinds else ""
        yield Remedy(
            "load it in lower precision: bfloat16 halves it, 8 and 4 bit take a quarter and an "
            "eighth of float32",
            f"parameters hold {request.size('parameters', 'buffers')}{as_type}",
        )
    yield Remedy(
        "shard it over several GPUs (FSDP, tensor parallel) or offload parts to the host",
        f"{request.size('parameters', 'buffers')} stays allocated while the model is used",
    )


def advise_on_gradients(request: FailedRequest) -> Iterator[Remedy]:
    """Yield remedies for gradients."""
    stray = find_stray_gradients(request.evidence)
    if stray is not None:
        yield Remedy(
            f"freeze the parameters of {stray.owner} that are not trained: requires_grad_(False)",
            f"backward computes their gradients, {round_size(stray.bytes)} so far, and no "
            "zero_grad() of an optimizer clears them",
        )
    large = find_large_gradient(request.evidence)
    if _EMBEDDING.search(large):
        yield Remedy(
            f"if {large} is an embedding table, make it with sparse=True and use SparseAdam or SGD",
            "its gradient then has only the rows of the batch, instead of all",
        )
    yield Remedy(
        "shard gradients and optimizer state (FSDP, ZeRO stage 2), or train fewer parameters "
        "(LoRA, requires_grad_(False))",
        f"gradients are as large as their parameters: {request.size('gradients')} so far; "
        "accumulation does not make them smaller",
    )
    yield Remedy(
        "keep parameters, and so gradients, in bfloat16",
        f"parameters hold {request.size('parameters')}, optimizer state "
        f"{request.size('optimizer state')}",
    )


def advise_on_state(request: FailedRequest) -> Iterator[Remedy]:
    """Yield remedies for the state of optimizers."""
    collection, number = find_kept_optimizers(request.evidence)
    if collection:
        yield Remedy(
            f"drop each optimizer in {collection} after its use, and the schedulers that refer to "
            "it",
            f"{number} optimizers have a state each: {request.size('optimizer state')} together",
        )
        return
    kind, who = _find_optimizer(request.evidence)
    values = _VALUES.get(kind)
    # At a step, what is trained has gradients; another model's parameters need no state.
    trained = request.account.of("gradients") or request.account.of("parameters")
    why = f"{who} holds {request.size('optimizer state')} so far"
    if values is not None:
        each = "one value" if values == 1 else f"{values} values"
        why = f"{who} keeps {each} for each parameter: {round_size(values * trained)} in all"
    if values == 1:
        yield Remedy(
            "use an optimizer without this state, such as SGD without momentum, or with less: 8-bit"
            " optimizers (bitsandbytes, torchao)",
            why,
        )
    elif not _SMALL_STATE.search(kind):
        yield Remedy(
            "use an optimizer with less state: 8-bit Adam (bitsandbytes, torchao), Adafactor, SGD",
            why,
        )
    yield Remedy(
        "shard the state over GPUs (FSDP, ZeroRedundancyOptimizer) or offload it to the host",
        f"state holds {request.size('optimizer state')} so far",
    )


def _find_optimizer(evidence: Evidence) -> tuple[str, str]:
    """Return the class and the name of the optimizer with the most state, else of that in the step.

    The class is empty, and the name general, if neither is known.
    """
    owners = list_owners(evidence, "optimizer state")
    if owners:
        return split_owner(owners[0])[1], owners[0]
    stack = tuple(chain(*evidence.stacks))
    for kind in _VALUES:
        if goes_through(stack, f"/torch/optim/{kind.lower()}.py"):
            return kind, kind
    return "", "the optimizer"
