"""The programs of :mod:`tests.oom.programs`: why each runs out of memory, and what helps.

Each line that may run out of memory ends with ``# asks``, each that enlarges a leak with
``# leaks``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tui.snapshots.explain.explanation import LeadingCause

FOLDER = Path(__file__).with_name("programs")
SMALLER_BATCH = "smaller batch"


@dataclass(frozen=True, slots=True)
class Program:
    """One program with the correct diagnosis."""

    name: str
    cause: LeadingCause
    says: tuple[str, ...] = ()
    """Text in the first line."""
    helps: tuple[str, ...] = ()
    """The first advice contains one of these."""
    never: tuple[str, ...] = (SMALLER_BATCH,)
    """No advice contains any of these."""
    alone: tuple[LeadingCause, ...] = ()
    """Causes that a snapshot alone may suggest: it lacks the inventory and the device's total, the
    process's limit and other processes' memory, which only an exception's text has."""
    devices: int = 1
    """Number of simulated GPUs."""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.py"

    def lines(self, mark: str) -> list[str]:
        """Return the lines with a mark, as ``name.py:12``."""
        text = self.path.read_text(encoding="utf-8").splitlines()
        marked = re.compile(rf"# .*\b{mark}\b")
        return [f"{self.name}.py:{at}" for at, line in enumerate(text, 1) if marked.search(line)]


def leak(
    name: str, *says: str, helps: tuple[str, ...], alone: tuple[LeadingCause, ...] = ()
) -> Program:
    """Return a program that leaks."""
    return Program(name, "leak", ("Leak: ", *says), helps, alone=alone)


def too_large(name: str) -> Program:
    """Return a program with a single request larger than the device."""
    helps = ("allocate a smaller tensor",)
    return Program(
        name, "larger than the device", helps=helps, alone=("larger than what was free",)
    )


def waits(name: str, *says: str) -> Program:
    """Return a program whose graphs wait for one backward pass."""
    helps = ("call backward() on each",)
    return Program(name, "activations", (*says, "until backward at"), helps, ("detach()",))


GRAPH = ("detach()", "item()", "no_grad()")
KEPT = ("bound the length of",)
LESS = ("smaller batch", "shorter sequence")

PROGRAMS = (
    leak("list_of_losses", "losses (list of 21", "grows by 32 MiB per step", helps=GRAPH),
    leak("list_of_scalar_losses", "losses (list of 4", helps=GRAPH, alone=("activations",)),
    replace(
        leak("leak_on_the_second_gpu", "log (list of 2", "grows by 32 MiB per step", helps=KEPT),
        devices=2,
    ),
    leak("metrics_with_graphs", "stats (a graph of", "per step", helps=("item()",)),
    leak("total_of_few_steps", "total (a graph of", "per step", helps=("item()",)),
    leak("running_total", "total (a graph of", "per step", helps=("item()",)),
    leak("predictions_with_graphs", "preds (list of 1", helps=("no_grad()",)),
    leak("closures", "callbacks (list of 21", helps=KEPT),
    leak("global_dict", "CACHE (dict of 21", helps=KEPT),
    leak("forward_hook", "activations (list of 21", "grows by 32 MiB per step", helps=KEPT),
    leak("retained_graphs", "Trainer.history (list of", "per step", helps=GRAPH),
    leak("kv_cache_by_cat", "Leak: cache", helps=("preallocate cache",)),
    leak("queue_to_a_thread", "results (Queue of 21", helps=KEPT),
    leak(
        "tracebacks",
        "errors (list of 22",
        helps=("exception", "traceback"),
        alone=("other tensors",),
    ),
    leak("attribute_list", "metric.outputs (list of 21", helps=KEPT),
    leak(
        "cache_with_a_limit",
        "cache.items (dict of 15",
        "per step; cache_with_a_limit.py:19 removes items, but later",
        helps=("remove items of cache.items sooner",),
    ),
    leak("dict_of_lists", "log['out'] (list of 4", "grows by 16 MiB per step", helps=KEPT),
    leak("list_of_dicts", "outputs (list of 7", helps=("no_grad()",)),
    leak("deque_without_limit", "replay (deque of 21", helps=KEPT),
    leak("memoized_function", "positions (cache of 3", helps=KEPT),
    leak("kept_gradients", "norms (list of 10", "grows by 64 MiB per step", helps=KEPT),
    leak("kept_state_dicts", "checkpoints (list of 10", "grows by 64 MiB per step", helps=KEPT),
    leak("growing_module", "memory (Memory)", helps=KEPT, alone=("other tensors",)),
    leak("double_backward", "penalties (list of 5", helps=GRAPH),
    leak("hidden_state", "hidden (a graph of", helps=("detach()",)),
    leak("generator_frames", "streams (list of 22", helps=KEPT),
    leak("adam_with_a_leak", "history (list of 9", "grows by 64 MiB per step", helps=KEPT),
    leak("handled_and_exited", "blocks (list of 27", helps=KEPT, alone=("other tensors",)),
    leak("recorder_hooks", "recorder.seen", "and 7 more like it (list of", helps=KEPT),
    leak("maps_of_layers", "model[0].maps and 5 more like it", helps=KEPT),
    leak("metric_lists", "metric.", "and 2 more like it (list of", "per step", helps=KEPT),
    leak(
        "stored_exception",
        "last (an exception",
        helps=("do not store exceptions",),
        alone=("activations",),
    ),
    leak(
        "failed_command",
        "the exception of an earlier command",
        helps=("sys.last_value",),
        alone=("activations",),
    ),
    leak("cache_of_a_decoder", "Cache.", "and 1 more like it", helps=("preallocate",)),
    leak("finished_hypotheses", "finished (list of", helps=KEPT),
    leak("dataset_that_caches", "Images._cache (dict of", "per step", helps=KEPT),
    leak(
        "models_in_cycles",
        "earlier AdamW and Sequential, to which no variable refers",
        helps=("break the reference cycles",),
        alone=("parameters", "fragmentation"),
    ),
    leak("kept_outputs_of_few_steps", "grows by 256 MiB per step", helps=GRAPH),
    leak("sampling_with_graphs", "x (a graph of", helps=GRAPH),
    Program(
        "unrolled_cell",
        "activations",
        ("loss (a graph of", "until backward at unrolled_cell.py:19"),
        ("detach() of h and c (truncated backpropagation)",),
        never=("call backward() on each",),
    ),
    Program(
        "retained_total",
        "activations",
        ("total (a graph of", "as backward at retained_total.py:18 retains the graph"),
        ("on each new term of total, without retain_graph=True",),
        never=(),
        alone=("leak",),
    ),
    Program(
        "whole_model_checkpointed",
        "activations",
        ("in backward, called from", "a checkpointed part, which backward recomputes as a whole"),
        ("call checkpoint() on smaller parts",),
        never=("use activation checkpointing",),
    ),
    Program(
        "embedding_gradient",
        "gradients",
        ("in backward, called from", "for weight of table (Embedding) in one piece"),
        ("sparse=True",),
        never=("largest tensor of the forward pass",),
    ),
    Program(
        "adapters_of_an_unfrozen_model",
        "gradients",
        ("in backward, called from", "of model (Sequential) that no optimizer updates"),
        ("freeze the parameters of model (Sequential)",),
    ),
    Program("cache_in_advance", "other tensors", helps=("use less", "allocate fewer")),
    Program(
        "evaluation_total",
        "activations",
        ("total (a graph of", "evaluation_total.py:17) keeps those of each pass"),
        ("add item() or detach() to total",),
        never=(),
        alone=("leak",),
    ),
    Program(
        "meter",
        "activations",
        ("meter.total (a graph of", "keeps those of each pass"),
        ("add item() or detach() to meter.total",),
        never=(),
        alone=("leak",),
    ),
    waits("micro_batch_losses", "losses (list of 1"),
    waits("first_micro_batches", "losses (list of 3"),
    waits("sum_of_micro_batches", "loss (a graph of"),
    waits("policy_gradient", "log_probs (list of 1"),
    Program(
        "validation_total",
        "activations",
        ("in validate",),
        ("no_grad()",),
        never=("call backward() on each",),
    ),
    Program("features_by_hook", "activations", helps=LESS, never=("detach()", "no_grad()")),
    Program("compiled_model", "activations", helps=LESS, never=("detach()", "no_grad()")),
    Program(
        "bounded_prefetch",
        "other tensors",
        ("ready",),
        ("on the host",),
        alone=("activations", "leak"),
    ),
    Program(
        "checkpoint_beside_optimizer", "parameters", ("a checkpoint is",), ("map_location='cpu'",)
    ),
    Program(
        "limit_too_high",
        "other tensors",
        ("Limit: replay (deque of", "of at most 100 000, limit_too_high.py:20)"),
        ("on the host with .cpu(), or set its maxlen",),
        alone=("fragmentation", "leak", "activations"),
    ),
    Program(
        "teacher_with_gradients",
        "activations",
        helps=("if teacher (Sequential) is not trained",),
        never=("detach()",),
    ),
    leak(
        "many_retries",
        "errors[0] (an exception",
        helps=("do not store exceptions",),
        alone=("activations",),
    ),
    Program(
        "joined_predictions",
        "larger than what was free",
        ("the size of outputs (list of 100, joined_predictions.py:13)",),
        ("to the host with .cpu() and join them there",),
        alone=("other tensors", "leak"),
    ),
    leak(
        "views_of_batches",
        "samples (list of 2",
        "grows by 32 MiB per step",
        helps=("clone() of each tensor in samples",),
    ),
    Program(
        "batches_in_advance",
        "other tensors",
        ("most of it in data, batches_in_advance.py:16",),
        ("keep data",),
        alone=("other tensors", "leak", "activations"),
    ),
    Program(
        "kept_optimizers",
        "optimizer state",
        ("optimizers in schedulers hold",),
        ("drop each optimizer in schedulers",),
        alone=("leak", "temporaries"),
    ),
    Program("template_layer", "activations", helps=LESS, never=("is not trained",)),
    Program(
        "results_of_cells",
        "activations",
        ("Activations of", "first, second", "keep those of the earlier ones"),
        ("wrap the passes in torch.no_grad(); else delete first, second",),
        never=(),
        alone=("leak",),
    ),
    Program(
        "large_logits",
        "larger than what was free",
        ("in backward, called from", "Request:"),
        ("use a smaller batch, or compute the largest tensor",),
        never=("over all pairs",),
        alone=("activations", "other tensors"),
    ),
    Program(
        "logits_of_a_batch",
        "larger than the device",
        ("Request:",),
        ("use a smaller batch or a shorter sequence",),
        never=(),
        alone=("larger than what was free",),
    ),
    Program("batch_too_large", "activations", helps=LESS, never=("detach()",)),
    Program("batch_too_large_in_backward", "activations", ("in backward, called from",), LESS, ()),
    Program("parameters", "parameters", helps=("lower precision",)),
    Program("parameters_by_cuda", "parameters", helps=("lower precision",)),
    Program("two_models", "parameters", helps=("delete the old model",)),
    Program("ema_copy", "parameters", helps=("keep the copy of the model on the host",)),
    Program("checkpoint_on_the_gpu", "parameters", helps=("map_location",)),
    Program("optimizer_state", "optimizer state", ("Adam",), ("8-bit Adam",)),
    Program(
        "momentum",
        "optimizer state",
        ("optimizer (SGD) holds",),
        ("without this state",),
        alone=("other tensors",),
    ),
    Program("optimizer_temporaries", "temporaries", helps=("foreach=False",)),
    Program("gradients", "gradients", ("in backward",), ("shard gradients",)),
    Program("cast_to_float32", "larger than what was free", helps=("cast to float32",)),
    too_large("attention_scores"),
    too_large("broadcast_by_mistake"),
    too_large("float64_by_mistake"),
    too_large("larger_than_the_gpu"),
    Program("fragmentation", "fragmentation", helps=("expandable_segments:True",)),
    Program(
        "process_limit",
        "process limit",
        helps=("set_per_process_memory_fraction",),
        alone=("refused with memory free",),
    ),
    Program(
        "other_process",
        "other processes",
        ("process ",),
        ("end or move process",),
        alone=("larger than what was free",),
    ),
    Program(
        "outside_torch",
        "outside torch",
        helps=("other users of GPU memory in this process",),
        alone=("larger than what was free",),
    ),
    Program("cuda_graph_pools", "CUDA graphs", helps=("share one pool",)),
    Program("memory_pool", "MemPool", helps=("MemPool",), alone=("private pools",)),
    Program("side_stream", "other streams", helps=("stream",)),
    Program("power_of_two_rounding", "rounding", helps=("roundup_power2_divisions",)),
    Program("growing_batch_schedule", "activations", helps=LESS, never=("detach()",)),
    Program("longer_sequences", "activations", helps=LESS, never=("detach()",)),
    Program("prefetching_loader", "activations", helps=LESS, never=("detach()",)),
    Program("validation_batch_too_large", "activations", helps=(*LESS, "no_grad()"), never=()),
    Program("convolutions", "activations", helps=LESS, never=("detach()",)),
    Program(
        "output_of_last_iteration",
        "larger than what was free",
        ("; picture of the previous iteration still holds 2.5 GiB.",),
        ("delete picture (del) at the end of each iteration",),
        never=(),
        alone=("other tensors", "temporaries", "activations"),
    ),
    Program(
        "graph_of_last_iteration",
        "activations",
        ("Activations of 2 passes hold", "scores keeps those of the earlier one"),
        ("wrap the passes in torch.no_grad(); else delete scores once it is used",),
        never=(),
        alone=("leak",),
    ),
    Program(
        "waiting_threads",
        "other tensors",
        ("most of it in batch (local of compute() in", "threads), waiting_threads.py:1"),
        ("run fewer threads at once",),
        alone=("leak",),
    ),
    Program(
        "batches_of_threads",
        "other tensors",
        ("most of it in batch (local of evaluate() in",),
        ("run fewer threads at once",),
        alone=("leak",),
    ),
    Program("dataset_on_the_gpu", "other tensors", ("images",), ("on the host",)),
)
"""All but ``rank_of_two``, which torchrun starts."""
