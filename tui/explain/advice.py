"""What would help against one failed allocation: it follows the cause and names the line.

Where arithmetic can test an advice, it does: expandable segments are advised where what is cached
would have been enough, and where torch's own message advises them in vain, that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tui.explain.account import Account, Capacity, models_of, models_words
from tui.explain.conclusion import roundup
from tui.explain.evidence import Evidence
from tui.explain.explanation import LeadingCause, Remedy
from tui.explain.frames import goes_through, line_words, main_stack
from tui.explain.lead import in_optimizer
from tui.explain.leak import Leak
from tui.explain.words import round_words
from tui.text.numbers import count
from tui.watch.inventory import CodeLine
from tui.watch.runs import EXAMPLE

RECORD = "gpu-workbench watch --record -- COMMAND"
WORTH_A_WORD = 0.02
"""Of what is reserved: cached memory from which it is said that giving it back is not enough."""
NO_MATTER_OF_CACHE: tuple[LeadingCause, ...] = (
    "fragmentation",
    "other streams",
    "CUDA graphs",
    "MemPool",
    "private pools",
    "larger than the device",
    "larger than what was free",
    "refused with memory free",
    "address space",
    "unknown",
)
"""Causes of which it need not be said that expandable segments would not have helped, or of which
it has been said that they would."""
_EVALUATES = re.compile(r"eval|valid|test|predict|infer|generate|score|embed", re.IGNORECASE)
_OUTPUTS = re.compile(r"pred|out|logit|embed|feat|score|result|prob", re.IGNORECASE)
_OF_TRAINING = re.compile(r"penalt|grad|norm|regular", re.IGNORECASE)
_CHECKPOINT = re.compile(r"state|ckpt|checkpoint|weights", re.IGNORECASE)
_WIDE = ("float32", "float64")


class _Asked:
    """What all advice is made from."""

    def __init__(
        self,
        evidence: Evidence,
        found: Account,
        leak: Leak | None,
        device: Capacity,
        where: CodeLine | None,
    ) -> None:
        self.evidence = evidence
        self.found = found
        self.leak = leak
        self.device = device
        self.where = where

    @property
    def line(self) -> str:
        """`` at oom.py:15``; empty where it is not on record."""
        return "" if self.where is None else f" at {line_words(self.where)}"

    def size(self, *names: str) -> str:
        """What some rows hold together."""
        return round_words(sum(row.bytes for row in self.found.rows if row.name in names))

    def dtypes(self, role: str) -> tuple[str, ...]:
        """Of a role's tensors, as the inventory tells them."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return tuple(kind for part in parts if part.role == role for kind in part.dtypes)

    def owners(self, role: str) -> list[str]:
        """Who has tensors of a role."""
        inventory = self.evidence.inventory
        parts = () if inventory is None else inventory.parts
        return [part.owner for part in parts if part.role == role]


def advise(
    evidence: Evidence,
    found: Account,
    leak: Leak | None,
    device: Capacity,
    cause: LeadingCause,
    where: CodeLine | None,
) -> tuple[Remedy, ...]:
    """Advice on one failure, the most telling first."""
    asked = _Asked(evidence, found, leak, device, where)
    cast = _twice_a_block(asked, cause)
    # By the dtype of a named tensor it is known, by sizes it may be chance.
    made = cast if evidence.half_block_is_narrow else []
    made = [*made, *_OF_CAUSE[cause](asked)]
    made += [] if evidence.half_block_is_narrow else cast
    made += _lost_to_rounding(asked, cause)
    made += _not_enough(asked, cause)
    made += _record(asked, cause)
    return tuple(made)


# ---- leaks ----


def _leak(asked: _Asked) -> list[Remedy]:
    leak = asked.leak
    assert leak is not None
    name = leak.name or "what is kept"
    place = f" at {line_words(leak.where)}" if leak.where is not None else ""
    held = f"{round_words(leak.bytes)} is held by it"
    if leak.kind == "graphs":
        return _graphs(leak, name, place, held)
    if leak.kind == "total":
        if leak.carried:
            return [
                Remedy(
                    f"cut the graph of {name}{place} with detach() before it is carried on, or "
                    "work under torch.no_grad() where no backward follows",
                    "its graph goes back through all iterations until then, and each keeps what "
                    f"it has saved for backward; {held}",
                )
            ]
        return [
            Remedy(
                f"add loss.item() or loss.detach() to {name}{place}, not the loss with its graph",
                f"the graph behind {name} goes back over many steps, and each keeps what it has "
                f"saved for backward; {held}",
            ),
            Remedy(
                "do not use backward(retain_graph=True) unless a second backward follows",
                "it keeps what autograd has saved, for as long as anything refers to the graph; a "
                "state carried from step to step is cut by detach()",
            ),
        ]
    if leak.kind == "cat":
        return [
            Remedy(
                f"preallocate {leak.name or 'the cache'}{place} for its greatest length and write "
                "into it, or bound its length",
                "torch.cat copies all of it for each piece that is added, so both the old and the "
                f"new one are live at once; {held}",
            ),
            Remedy(
                "fewer sequences at once, a shorter context, or a cache of lower precision",
                "a cache of keys and values grows with each token of each sequence",
            ),
        ]
    if leak.kind == "traceback":
        return [
            Remedy(
                "do not keep exceptions: keep str(error) or traceback.format_exc(), or call "
                "error.with_traceback(None)",
                "a traceback keeps its frames alive, and those all their tensors",
            )
        ]
    if leak.kind == "list" and leak.name:
        return [
            Remedy(
                f"bound how much {name} keeps{place} (deque(maxlen=…), clear()), or keep it on the "
                "host with .cpu(), or a summary of it with item()",
                f"its tensors carry no graph, so detach() alone does not help; {held}",
            )
        ]
    if leak.kind == "unnamed":
        return [
            Remedy(
                "call gc.collect() now and then to see whether it falls: if so, break the "
                "reference cycle (weakref, del)",
                f"{round_words(leak.bytes)} grew without a name that Python could give",
            ),
            Remedy(
                "keep detach() or item() of what outlives a step: hooks, closures, metrics and "
                "loggers keep graphs",
                "one kept tensor keeps all that autograd has saved for it",
            ),
        ]
    return [
        Remedy(
            f"keep detach() or item() of what is made{place}, move it to the host with .cpu(), or "
            "bound the collection that keeps it",
            f"{held}; deque(maxlen=…) or clear() bounds a collection",
        ),
        Remedy(
            "if these are outputs of an evaluation, wrap it in torch.no_grad()",
            "with gradients on, each output also keeps the activations of its pass",
        ),
    ]


def _graphs(leak: Leak, name: str, place: str, held: str) -> list[Remedy]:
    function = leak.where.name if leak.where is not None else ""
    evaluates = bool(_EVALUATES.search(function) or _OUTPUTS.search(name)) or not (
        leak.training or _OF_TRAINING.search(name)
    )
    no_grad = Remedy(
        f"wrap the evaluation{place} in torch.no_grad() or torch.inference_mode()",
        f"{count(leak.graphs, 'tensor')} in {name} carry a graph, which keeps the activations of "
        f"each pass; {held}",
    )
    detach = Remedy(
        f"keep detach() or item() of each tensor in {name}{place}, moved to the host with .cpu() "
        "where it is large",
        f"{count(leak.graphs, 'tensor')} in {name} carry a graph (grad_fn); {held}",
    )
    return [no_grad, detach] if evaluates else [detach, no_grad]


# ---- what the model itself takes ----


def _parameters(asked: _Asked) -> list[Remedy]:
    made = []
    stack = (*asked.evidence.stack, *main_stack(asked.evidence.threads))
    who = asked.owners("parameters")
    loaded = any(each.bytes and _CHECKPOINT.search(each.name) for each in asked.evidence.named[:1])
    if goes_through(stack, "/torch/serialization.py") or loaded:
        made.append(
            Remedy(
                f"load the checkpoint to the host: torch.load(…, map_location='cpu'){asked.line}",
                "loaded to the GPU it is a second copy beside the model",
            )
        )
    if goes_through(stack, "/copy.py", "deepcopy") or goes_through(stack, "/swa_utils.py"):
        made.append(
            Remedy(
                f"keep the copy of the model on the host or in lower precision{asked.line}",
                f"an average (EMA) or a reference model doubles {asked.size('parameters')}",
            )
        )
    elif len(models_of(asked.evidence)) > 1 or len(who) > len(models_of(asked.evidence)):
        made.append(
            Remedy(
                "delete the old model (del, then gc.collect()) before the next one is loaded, or "
                "keep one of them on the host",
                f"{models_words(asked.evidence)} hold {asked.size('parameters')} together",
            )
        )
    kinds = asked.dtypes("parameters")
    if not kinds or any(kind in _WIDE for kind in kinds):
        told = f" as {kinds[0]}" if kinds else ""
        made.append(
            Remedy(
                "load it in lower precision: bfloat16 halves it, 8 and 4 bit take a quarter and an "
                "eighth of float32",
                f"parameters hold {asked.size('parameters', 'buffers')}{told}",
            )
        )
    made.append(
        Remedy(
            "shard it over several GPUs (FSDP, tensor parallel) or offload parts to the host",
            f"{asked.size('parameters', 'buffers')} stays for as long as the model is used",
        )
    )
    return made


def _gradients(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "shard gradients and optimizer state (FSDP, ZeRO stage 2), or train fewer parameters "
            "(LoRA, requires_grad_(False))",
            f"gradients take as much as the parameters they are of: {asked.size('gradients')} so "
            "far; accumulation does not make them smaller",
        ),
        Remedy(
            "keep parameters, and so gradients, in bfloat16",
            f"parameters hold {asked.size('parameters')}, optimizer state "
            f"{asked.size('optimizer state')}",
        ),
    ]


def _state(asked: _Asked) -> list[Remedy]:
    who = asked.owners("optimizer state")
    return [
        Remedy(
            "use an optimizer of less state: 8-bit Adam (bitsandbytes, torchao), Adafactor, or SGD",
            f"{who[0] if who else 'Adam'} keeps two values for each parameter, so twice the "
            f"{asked.size('parameters')} of parameters",
        ),
        Remedy(
            "shard the state over GPUs (FSDP, ZeroRedundancyOptimizer) or offload it to the host",
            f"state holds {asked.size('optimizer state')} so far",
        ),
    ]


def _temporaries(asked: _Asked) -> list[Remedy]:
    if not in_optimizer(asked.evidence):
        return _activations(asked)
    return [
        Remedy(
            "give the optimizer foreach=False (or fused=True)",
            "foreach works on all parameters at once, and its temporaries take as much as they do: "
            f"{asked.size('parameters')}",
        ),
        *_state(asked),
    ]


# ---- what the batch takes ----


def _activations(asked: _Asked) -> list[Remedy]:
    line = asked.line
    less = [
        Remedy(
            f"give the pass less: a smaller batch (with gradient accumulation) or a shorter "
            f"sequence{line}",
            f"activations hold {asked.size('activations')} and grow with batch and sequence",
        ),
        Remedy(
            "use activation checkpointing (torch.utils.checkpoint), or autocast to bfloat16",
            "it keeps the inputs of parts and works out the rest again in backward",
        ),
    ]
    function = asked.where.name if asked.where is not None else ""
    if _EVALUATES.search(function):
        without = Remedy(
            f"wrap the evaluation{line} in torch.no_grad() or torch.inference_mode()",
            f"{function} keeps {asked.size('activations')} for a backward pass that does not "
            "follow",
        )
        return [without, *less]
    return [*less, *_inference(asked)]


def _inference(asked: _Asked) -> list[Remedy]:
    inventory = asked.evidence.inventory
    if inventory is None or inventory.step > 0:
        return []
    if any(part.role in ("gradients", "optimizer state") for part in inventory.parts):
        return []
    return [
        Remedy(
            "if no backward pass follows, wrap it in torch.no_grad()",
            "no optimizer and no gradient is there, and with gradients on each operation keeps "
            "its inputs",
        )
    ]


def _tensors(asked: _Asked) -> list[Remedy]:
    most = next(iter(asked.evidence.named), None)
    if most is None or not most.bytes:
        made = max(asked.evidence.purposes, key=lambda each: each.site_bytes, default=None)
        if made is None or not made.site:
            return [
                Remedy(
                    f"keep less on the GPU at once{asked.line}: free, move to the host, or work "
                    "in parts",
                    f"{round_words(asked.evidence.allocated)} is live in this process",
                )
            ]
        return [
            Remedy(
                f"make or keep less at {made.site}: free it earlier, or move it to the host; "
                "where its size follows the batch, a smaller batch",
                f"{made.site} held {round_words(made.site_bytes)} of the "
                f"{round_words(asked.evidence.allocated)} live",
            )
        ]
    line = most.adds or most.where
    place = f" ({line_words(line)})" if line is not None else ""
    return [
        Remedy(
            f"keep {most.name}{place} on the host and move the part that is needed, or free it",
            f"it holds {round_words(most.bytes)} of the {asked.size('other tensors')} that the "
            "program's own names reach",
        )
    ]


def _request(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            f"make the tensor smaller that is asked for{asked.line}, or make it in parts",
            f"{round_words(asked.evidence.asked)} in one piece; such a size often comes from a "
            "tensor over all pairs: x[:, None] with y[None, :], distances, attention weights, or "
            "a target of (N, 1) beside an output of (N)",
        ),
    ]


# ---- the allocator ----


def _rounding(asked: _Asked) -> list[Remedy]:
    if "roundup_power2_divisions" in dict(asked.evidence.settings):
        return [_drop_roundup(asked)]
    return [
        Remedy(
            "allocate fewer and larger tensors",
            f"{asked.size('rounding')} is the difference between blocks and what was asked for",
        )
    ]


def _drop_roundup(asked: _Asked) -> Remedy:
    return Remedy(
        "drop roundup_power2_divisions from PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF)",
        f"it rounds sizes up: {asked.size('rounding')} of "
        f"{round_words(asked.evidence.reserved)} reserved is lost to it",
    )


def _fragmentation(asked: _Asked) -> list[Remedy]:
    evidence = asked.evidence
    freed = asked.size("fragmentation")
    pieces = "" if evidence.largest is None else f", the largest {round_words(evidence.largest)}"
    if evidence.expandable:
        return [
            Remedy(
                "allocate what lives long before what is large and short-lived, and keep sizes "
                "the same from step to step",
                f"{freed} is cached in pieces{pieces}, and expandable segments are on already",
            )
        ]
    off = (
        "expandable segments are off"
        if evidence.expandable is False
        else "whether expandable segments are on is not in the file"
    )
    return [
        Remedy(
            f"set {evidence.expandable_setting} before torch starts",
            f"{freed} was cached in pieces between live blocks{pieces}; {off}; they "
            f"would free it, enough for the {round_words(evidence.shortfall)} that lacked",
        )
    ]


def _streams(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "use fewer streams for large tensors, or free on the stream that allocated",
            f"{asked.size('other streams')} was cached for other streams",
        )
    ]


def _pending(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "have the host wait for the side stream now and then (event.synchronize()), or hold "
            "references instead of record_stream()",
            f"{asked.size('pending')} was freed, and its stream had not got to the end of its use",
        )
    ]


def _graph_pools(asked: _Asked) -> list[Remedy]:
    held = asked.size("CUDA graphs", "private pools")
    return [
        Remedy(
            "release CUDA graphs that are not needed, capture fewer shapes, or let graphs share "
            "one pool (torch.cuda.graph(pool=…))",
            f"{held} was free inside private pools, which only they can use",
        )
    ]


def _mem_pools(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "drop the torch.cuda.MemPool once its tensors are freed, or make it with "
            "use_on_oom=True",
            f"{asked.size('MemPool', 'private pools')} was free inside private pools, which only "
            "they can use",
        )
    ]


def _private(asked: _Asked) -> list[Remedy]:
    return [*_graph_pools(asked), *_mem_pools(asked)]


# ---- outside of torch's live memory ----


def _limit(asked: _Asked) -> list[Remedy]:
    evidence = asked.evidence
    free = "" if evidence.free is None else f"; the device had {round_words(evidence.free)} free"
    return [
        Remedy(
            "raise torch.cuda.set_per_process_memory_fraction",
            f"it allows {round_words(evidence.allowed or 0)}{free}",
        )
    ]


def _processes(asked: _Asked) -> list[Remedy]:
    evidence = asked.evidence
    least = "" if evidence.holders or evidence.others is not None else " or more"
    if evidence.holders:
        most = max(evidence.holders, key=lambda each: each.bytes)
        who = " ".join(filter(None, [f"process {most.pid}", most.user, most.command[:60]]))
        return [
            Remedy(
                f"end or move {who}, or use another device",
                f"it holds {round_words(most.bytes)}; all others together "
                f"{asked.size('other processes')}",
            )
        ]
    return [
        Remedy(
            "end or move the other processes on this device (the Processes screen names them)",
            f"they held {asked.size('other processes')}{least}",
        )
    ]


def _outside(asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "look for what else takes GPU memory in this process: NCCL communicators, another "
            "framework that takes the device for itself (TensorFlow, JAX), renderers, inference "
            "engines",
            f"{asked.size('outside torch')} is this process's and not torch's",
        )
    ]


def _refused(asked: _Asked) -> list[Remedy]:
    known = asked.evidence.text
    fraction = "" if known else "torch.cuda.set_per_process_memory_fraction in the program, "
    return [
        Remedy(
            f"look for a limit: {fraction}MIG in nvidia-smi -L, the container's limits; then for "
            "processes that come and go (the Processes screen names them)",
            f"{round_words(asked.evidence.free or 0)} was free and "
            f"{round_words(asked.evidence.asked)} was refused",
        )
    ]


def _address_space(_asked: _Asked) -> list[Remedy]:
    return [
        Remedy(
            "run without expandable segments, or with fewer processes that use them",
            "each reserves virtual address space for the whole device",
        )
    ]


def _none(_asked: _Asked) -> list[Remedy]:
    return []


_OF_CAUSE: dict[LeadingCause, Callable[[_Asked], list[Remedy]]] = {
    "leak": _leak,
    "parameters": _parameters,
    "gradients": _gradients,
    "optimizer state": _state,
    "buffers": _parameters,
    "activations": _activations,
    "temporaries": _temporaries,
    "other tensors": _tensors,
    "pending": _pending,
    "rounding": _rounding,
    "fragmentation": _fragmentation,
    "other streams": _streams,
    "CUDA graphs": _graph_pools,
    "MemPool": _mem_pools,
    "private pools": _private,
    "process limit": _limit,
    "other processes": _processes,
    "outside torch": _outside,
    "larger than the device": _request,
    "larger than what was free": _request,
    "refused with memory free": _refused,
    "address space": _address_space,
    "full": _tensors,
    "unknown": _none,
}


# ---- beside the cause ----


def _twice_a_block(asked: _Asked, cause: LeadingCause) -> list[Remedy]:
    evidence = asked.evidence
    if not evidence.half_block or cause not in ("activations", "larger than what was free"):
        return []
    return [
        Remedy(
            f"look for a cast to float32{asked.line}: .float(), a loss or a softmax under autocast",
            f"{round_words(evidence.asked)} is exactly twice a live block, of "
            f"{evidence.half_block}; do it in parts, or keep the lower precision",
        )
    ]


def _lost_to_rounding(asked: _Asked, cause: LeadingCause) -> list[Remedy]:
    lost = asked.found.of("rounding")
    if cause == "rounding" or not roundup(asked.evidence):
        return []
    return [_drop_roundup(asked)] if lost > WORTH_A_WORD * asked.evidence.reserved else []


def _not_enough(asked: _Asked, cause: LeadingCause) -> list[Remedy]:
    """What torch's own message advises, where arithmetic says that it would not have helped."""
    evidence = asked.evidence
    stuck = evidence.stuck if evidence.stuck is not None else evidence.cached
    if cause in NO_MATTER_OF_CACHE or evidence.expandable or stuck == 0:
        return []
    if stuck < WORTH_A_WORD * evidence.reserved and stuck < evidence.shortfall:
        return []
    after = "; the allocator had given its free segments back before it failed"
    if stuck < evidence.shortfall:
        lacked = round_words(evidence.shortfall)
        why = f"they would free {round_words(stuck)}: not enough for {lacked}"
    else:
        why = f"they would free {round_words(stuck)}: enough for this request, not for long"
    return [Remedy("do not expect expandable segments or empty_cache() to help", why + after)]


def _record(asked: _Asked, cause: LeadingCause) -> list[Remedy]:
    """A recording, where it would tell what is not known, and none was made."""
    evidence = asked.evidence
    if evidence.recorded or (evidence.history and (asked.where is not None or evidence.watched)):
        return []
    unnamed = cause == "leak" and asked.leak is not None and asked.leak.kind == "unnamed"
    if evidence.watched:
        if unnamed or cause in ("full", "unknown", "fragmentation"):
            return [
                Remedy(
                    f"run it with {RECORD}",
                    "the history of allocations names the lines that made what is live",
                )
            ]
        return []
    if evidence.inventory is None and (unnamed or cause in ("full", "unknown") or not asked.where):
        return [
            Remedy(
                f"start the program with {EXAMPLE}",
                "the line that asked or what holds the memory is not on record; the snapshot that "
                "this writes where memory runs out names it",
            )
        ]
    return []
