"""Find workloads by words, and list them by group for the table. Pure.

The search compares a word with name, group, title and synonyms first. It matches only a word
without a hit there loosely, and searches the descriptions last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.fuzzy import Matcher

from tui.runs.state.state import RunsState
from tui.runs.views.workload_table import Entry, Group, build_row
from workloads.protocol.results import WorkloadInfo

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "attention": ("sdpa", "flash", "mha", "gqa", "kv", "causal", "mask", "softmax"),
    "llm": ("gpt", "llama", "transformer", "tokens", "kv", "cache", "inference", "serving"),
    "transformer": ("bert", "encoder", "inductor", "dynamo"),
    "matmul": ("gemm", "mm", "bmm", "dot", "blas", "cublas", "linear", "dense", "flops", "tflops"),
    "decode_gemm": ("gemv", "int4", "int8", "quantized", "quantization"),
    "float8": ("fp8", "e4m3"),
    "tf32": ("precision", "rounding", "allow_tf32"),
    "conv": ("cudnn", "winograd", "convolution", "image", "resnet", "benchmark"),
    "deterministic": ("reproducible", "determinism", "seed"),
    "transfer": ("h2d", "d2h", "pcie", "pinned", "memcpy", "bandwidth"),
    "device_copy": ("hbm", "bandwidth", "memcpy", "d2d"),
    "peer_copies": ("nvlink", "p2p", "gpudirect"),
    "all_reduce": ("nccl", "allreduce", "collective", "gloo"),
    "ddp_training": ("distributed", "torchrun"),
    "reductions": ("sum", "mean", "softmax", "layernorm", "rmsnorm", "norm"),
    "elementwise": ("pointwise", "fusion", "triton", "inductor", "relu", "gelu"),
    "linalg": ("solve", "eig", "svd", "cholesky", "lapack", "cusolver"),
    "ceiling": ("roofline", "peak", "limit"),
    "burn": ("stress", "thermal", "power", "throttle", "burnin"),
    "cuda_graphs": ("launch", "overhead", "capture"),
    "optimizer_step": ("adam", "adamw", "sgd", "foreach", "fused"),
    "activation_memory": ("recompute", "offload", "save_on_cpu", "leak"),
    "checkpointing": ("recompute",),
    "amp": ("autocast", "bf16", "fp16", "bfloat16", "gradscaler"),
    "data_loading": ("dataloader", "workers", "dataset", "io"),
    "load_weights": ("safetensors", "disk", "mmap", "checkpoint"),
    "profiler": ("kernels", "trace", "nsight"),
    "naive_timing": ("synchronize", "async", "benchmark"),
    "item_in_loop": ("sync", "synchronize"),
    "python_loop": ("vectorize", "vectorized"),
    "staircase": ("allocator", "empty_cache", "reserved"),
    "fragmentation": ("expandable_segments", "allocator"),
    "out_of_memory": ("oom", "leak"),
    "batch_until_oom": ("oom", "fit", "leak"),
    "inference_modes": ("no_grad", "inference_mode", "eval", "leak"),
    "tiny_model": ("latency", "launch", "overhead"),
}
"""Other words for a workload, by a part of its name."""
EXACT, BEGINNING, WITHIN, MEANING, BESIDE, LOOSE = 6.0, 5.0, 4.0, 3.0, 2.0, 1.0
"""How well a word fits: it is the name, begins it, is in it; means it; is in group or title; is
nearly a name or stands in a description."""
LEAST_LOOSE = 3
"""Letters from which a word is matched loosely: two letters are in nearly every name."""
MEANT_FROM = 3
"""Letters from which the beginning of a term stands for it."""
COMPACT = 1.5
"""Score per letter from which the fuzzy matcher's hit is near enough: the letters of a name's words
in order, mostly side by side. Letters scattered over a text score about 1."""


def rank_workloads(catalogue: Sequence[WorkloadInfo], pattern: str) -> dict[str, float]:
    """Return the score of each workload that fits every word, by name.

    Args:
        catalogue: the workloads.
        pattern: words, parted by blanks; without any, all workloads fit alike.
    """
    ranks = {info.name: 0.0 for info in catalogue}
    for word in pattern.lower().split():
        scores = {info.name: _score_directly(info, word) for info in catalogue}
        if not any(scores.values()):
            scores = {info.name: _score_loosely(info, word) for info in catalogue}
        ranks = {name: sum_ + scores[name] for name, sum_ in ranks.items() if scores[name]}
    return ranks


def _score_directly(info: WorkloadInfo, word: str) -> float:
    """Return the score of a word in name, group or title, or of a synonym."""
    name = info.name.lower()
    if word == name:
        return EXACT
    if name.startswith(word):
        return BEGINNING
    if word in name:
        return WITHIN
    for part, terms in MEANINGS.items():
        if part in name and (
            word in terms
            or (len(word) >= MEANT_FROM and any(term.startswith(word) for term in terms))
        ):
            return MEANING
    return BESIDE if word in f"{info.group} {info.title}".lower() else 0.0


def _score_loosely(info: WorkloadInfo, word: str) -> float:
    """Return the score of a word that is nearly the name, or stands in the description."""
    if len(word) < LEAST_LOOSE:
        return 0.0
    near = Matcher(word).match(info.name) / len(word)
    if near >= COMPACT:
        return LOOSE + near / 10
    return LOOSE if word in f"{info.about} {info.look_for}".lower() else 0.0


def build_entries(
    state: RunsState, pattern: str = "", folded: frozenset[str] = frozenset()
) -> list[Entry]:
    """Group the workloads, the groups in the order of their first appearance.

    With a pattern, the best match comes first, both among the groups and within each.

    Args:
        state: the state of the runs.
        pattern: words that a workload must match; matches are shown even in a folded group.
        folded: names of groups whose workloads are hidden.
    """
    groups: dict[str, list[WorkloadInfo]] = {}
    scores = rank_workloads(state.catalogue, pattern)
    # Sorting is stable: equal matches stay in the order of the catalogue.
    fitting = [info for info in state.catalogue if info.name in scores]
    for info in sorted(fitting, key=lambda info: -scores[info.name]):
        groups.setdefault(info.group, []).append(info)
    entries: list[Entry] = []
    for name, members in groups.items():
        hide = name in folded and not pattern.strip()
        entries.append(Group(name, hide, len(members)))
        if not hide:
            entries.extend(build_row(state, info) for info in members)
    return entries
