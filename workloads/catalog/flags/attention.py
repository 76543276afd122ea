"""Scaled dot-product attention: torch's backends, which one it picks, and why not the others."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from workloads.catalog.flags.attention_functions import (
    FLEX,
    NESTED,
    VARLEN,
    compiler,
    flex_attention,
    nested_attention,
    pack,
    varlen_attention,
)
from workloads.catalog.shared.caches import (
    WARM,
    CacheState,
    cache_setter,
    compare_caches,
    flush_bytes,
)
from workloads.declare.study import Study
from workloads.declare.tools import Call, Within
from workloads.declare.workload import Case, ParameterError, Skip, one_of, whole, workload
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

LONG_SEQUENCE = 4096
"""Positions at which a GPU's kernels run long enough to stand out from their launch."""
FULL, CAUSAL, PADDING = "full", "causal", "padding"
PADDED = 4
"""With padding, one of so many positions at the end of each sequence is hidden."""
AUTO = "auto"
BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
"""Names in ``torch.nn.attention.SDPBackend``."""
OPERATORS = {
    "flash": "_scaled_dot_product_flash_attention",
    "efficient": "_scaled_dot_product_efficient_attention",
    "cudnn": "_scaled_dot_product_cudnn_attention",
}
"""First part of the names of the operators that torch dispatches to."""

NO_REASON = re.compile(
    r"kernel not used because:|has been runtime disabled|nested tensors is in prototype stage"
)
"""Warnings of torch that say which backend they are about, that it was not allowed, or that a
function may change."""
DISPATCHER = " This could be because"
"""Follows the reason where an operator lacks this type of device; the rest lists all types."""
TRIGGERED = re.compile(r"\s*\(Triggered internally at .*\)", re.DOTALL)


@workload(
    group="flags",
    title="scaled dot-product attention",
    about="softmax(Q K^T / sqrt(D)) V for a batch of heads, as in a transformer, by the backend "
    "that torch picks or the one that you set; then by each backend in turn, by nested tensors, "
    "varlen_attn and, except in a quick run, compiled flex_attention. A causal mask lets each "
    "position see those before it: half of the work. With padding, a mask hides the last quarter "
    "of the keys; nested tensors and varlen_attn leave them out instead. Fewer KV heads are shared "
    "by groups of heads (GQA).",
    look_for="Which backend torch picked, and for each other one torch's own words why it cannot "
    "run: a mask, float32, the number of KV heads. The math backend writes the S x S matrix of "
    "scores to memory, the fused ones (flash, efficient, cudnn) keep it on the chip: compare peak "
    "memory. Twice the length is four times the work.",
)
def attention(
    on: Place,
    batch: Annotated[int, whole(1, 1024, "sequences")] = 2,
    heads: Annotated[int, whole(1, 256, "heads")] = 8,
    length: Annotated[int, whole(2, 65_536, "positions in a sequence, S")] = 512,
    width: Annotated[int, whole(8, 256, "width of a head, D")] = 64,
    mask: Annotated[str, one_of((FULL, CAUSAL, PADDING), "what a position sees")] = FULL,
    dtype: Annotated[str, one_of(("float32", "bfloat16", "float16"), "of the numbers")] = "float32",
    kv_heads: Annotated[int, whole(1, 256, "heads of keys and values", auto="all heads")] = 0,
    backend: Annotated[
        str, one_of((AUTO, *BACKENDS), "backend of the time on top; auto: torch's choice")
    ] = AUTO,
    cache: CacheState = WARM,
) -> Case:
    from workloads.declare.place import DTYPES, TOLERANCES, against_float64, attention_precision
    from workloads.scripts.attention import attend

    kv_heads = kv_heads or heads
    if heads % kv_heads:
        raise ParameterError(f"attention: kv_heads={kv_heads}: a divisor of heads={heads}")
    shape = AttentionShape(batch, heads, kv_heads, length, width, mask, dtype)
    room, host = _count_bytes(batch * heads, length, width, DTYPES[dtype].itemsize)
    purpose = "queries, keys, values and the math backend's scores"
    flushed = flush_bytes(on, cache)
    on.require((max(room, host) if on.type == "cpu" else room) + flushed, purpose, host=host)
    data = shape.data(on)
    timed = partial(attend, *data, mask == CAUSAL)
    if backend != AUTO and (why := reason_against(_restrict([backend], timed))):
        raise Skip(f"{backend}: does not run here: {why}")
    used = attention_precision(on, dtype)
    under_cache = cache_setter(cache, on)

    def check() -> Check:
        reference_name = "one head by the formula, in float64 on the CPU"
        return against_float64(
            timed()[0, 0], shape.reference(data), TOLERANCES[used], reference_name
        )

    def study(study: Study) -> None:
        _picked(study, timed)
        with nullcontext() if study.quick else compiler():
            title = f"by backend, {length} positions, {cache} cache"
            ways = _collect_ways(study, shape, data, timed)
            _compare(study, "kernels", title, ways, under_cache, shape.flop)
            _differences(study, ways, shape.reference(data, -1, -1), TOLERANCES[used])
            chosen = study.figures["picked"].value if backend == AUTO else backend
            result = batch * heads * length * width * DTYPES[dtype].itemsize
            stored = result if chosen in OPERATORS else room  # the math backend stores the scores
            compare_caches(study, on, timed, (float(shape.flop), "FLOP/s"), stored)
            if on.type != "cpu" and length < LONG_SEQUENCE:
                long_kernels(study)

    def long_kernels(study: Study) -> None:
        """Compare the backends where the launch is a small part, if there is room."""
        room, _ = _count_bytes(batch * heads, LONG_SEQUENCE, width, DTYPES[dtype].itemsize)
        try:
            on.require(room, purpose)
        except Skip as skip:
            study.log_line(f"not at {LONG_SEQUENCE} positions: {skip}")
            return
        longer = replace(shape, length=LONG_SEQUENCE)
        long_data = longer.data(on)
        title = f"by backend, {LONG_SEQUENCE} positions, {cache} cache"
        ways = _collect_ways(study, longer, long_data, partial(attend, *long_data, mask == CAUSAL))
        _compare(study, "long_kernels", title, ways, under_cache, longer.flop)

    # Around the whole run, as entering it for each call would be timed.
    allowed = ExitStack()
    if backend != AUTO:
        allowed.enter_context(_allow([backend]))
    return Case(
        under_cache(timed),
        flop=shape.flop,
        chosen={"kv_heads": kv_heads},
        precision=used,
        check=check,
        study=study,
        cleanup=allowed.close,
    )


AttentionData: TypeAlias = "tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]"
"""Queries, keys, values, and the mask if there is one: true where a position sees a key."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The sizes of the data, and the keys that a position sees."""

    batch: int
    heads: int
    kv_heads: int
    length: int
    width: int
    mask: str
    dtype: str

    @property
    def causal(self) -> bool:
        """Return whether a position sees only those before it and itself."""
        return self.mask == CAUSAL

    @property
    def key_length(self) -> int:
        """Return the number of keys of a sequence that padding leaves visible."""
        return self.length - (self.length // PADDED if self.mask == PADDING else 0)

    @property
    def flop(self) -> int:
        """Return the FLOP of both products, for the pairs of positions that are not masked."""
        from workloads.declare.place import attention_flop

        if self.mask == PADDING:
            return 4 * self.batch * self.heads * self.length * self.key_length * self.width
        return attention_flop(self.batch, self.heads, self.length, self.width, causal=self.causal)

    def data(self, on: Place) -> AttentionData:
        """Return random queries, keys and values, and the mask of padding."""
        import torch

        query, key, value = (
            on.randn(self.batch, heads, self.length, self.width, dtype=self.dtype)
            for heads in (self.heads, self.kv_heads, self.kv_heads)
        )
        if self.mask != PADDING:
            return query, key, value, None
        seen = torch.arange(self.length, device=on.device) < self.key_length
        return query, key, value, seen.expand(self.length, self.length)

    def reference(self, data: AttentionData, sequence: int = 0, head: int = 0) -> torch.Tensor:
        """Return a head of a sequence by the formula, in float64 on the CPU.

        Args:
            data: queries, keys and values.
            sequence: index of the sequence.
            head: 0 for the first head, -1 for the last.
        """
        import torch

        query, key, value = (
            tensor[sequence, head].cpu().double() for tensor in data[:3] if tensor is not None
        )
        weights = query @ key.T / self.width**0.5
        if self.causal:
            weights = weights.masked_fill(torch.ones_like(weights).triu(1).bool(), -torch.inf)
        weights[:, self.key_length :] = -torch.inf
        result: torch.Tensor = weights.softmax(-1) @ value
        return result


def _count_bytes(heads: int, length: int, width: int, itemsize: int) -> tuple[int, int]:
    """Return the math kernel's bytes, and the check's bytes on the host.

    The math kernel computes 16-bit numbers in float32 (ATen: ``attention.cpp``). It has the scores
    before and after the softmax, and once more without fully masked rows, with a flag for each
    score; all heads share one matrix for the causal mask.

    Args:
        heads: number of heads in all sequences together.
        length: positions in a sequence.
        width: width of a head.
        itemsize: bytes of a stored number.
    """
    tokens = heads * length * width
    # Queries, keys, values and the result as stored, three of them once more one sequence after the
    # other; three in float32, two scaled.
    room = (
        tokens * (7 * itemsize + (3 + 2 + 1) * 4) + heads * length**2 * (3 * 4 + 1) + 5 * length**2
    )
    # In float64: a head's queries, keys, values and result; its scores, weights, and a mask.
    check = 3 * tokens * itemsize + 8 * (6 * length * width + 4 * length**2)
    return room, check


def _allow(names: Iterable[str]) -> AbstractContextManager[None]:
    """Return the context that allows some of :data:`BACKENDS` alone."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([getattr(SDPBackend, BACKENDS[name]) for name in names])


def _restrict(names: Iterable[str], attend: Callable[[], object]) -> Within:
    """Return the same call with some backends allowed alone."""
    return Within(partial(_allow, names), attend)


def picked_backend(attend: Callable[[], object]) -> str:
    """Return the backend that torch picks, from the operator that it dispatches to."""
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class DispatchedOperators(TorchDispatchMode):
        def __torch_dispatch__(
            self,
            func: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            names.append(func.name().removeprefix("aten::"))
            return func(*args, **(kwargs or {}))

    with DispatchedOperators():  # type: ignore[no-untyped-call]
        attend()
    fused = (
        backend
        for backend, operator in OPERATORS.items()
        if any(name.startswith(operator) for name in names)
    )
    return next(fused, "math")


def _picked(study: Study, attend: Callable[[], torch.Tensor]) -> None:
    about = "by torch, if it may choose"
    try:
        study.figure("picked", picked_backend(_restrict(BACKENDS, attend)), "", about)
    except RuntimeError as error:
        study.absent("picked", first_line(error), "", about)


def reason_against(call: Callable[[], object], *, warned: bool = True) -> str | None:
    """Call once; return torch's reasons if the call cannot run, ``None`` if it runs.

    Args:
        call: the call; compilers raise exceptions of any class.
        warned: torch gives its reasons as warnings (backends of attention) or in its log (nested
            tensors), where there are any.
    """
    with _torch_messages() as messages:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (of any class, as said above; it is reported)
            failure = first_line(error).partition(DISPATCHER)[0].strip()
        else:
            return None
    return (explain_refusal(messages) if warned else "") or failure


def explain_refusal(messages: list[str]) -> str:
    """Return torch's warnings about the only allowed backend; empty without any.

    torch explains itself for all backends: those that were not allowed, with that alone
    (ATen: ``transformers/cuda/sdp_utils.cpp``).
    """
    lines = [TRIGGERED.sub("", message).strip() for message in messages]
    return " ".join(dict.fromkeys(text for text in lines if not NO_REASON.search(text)))


@contextmanager
def _torch_messages() -> Iterator[list[str]]:
    """Collect torch's warnings, and the log of nested tensors."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    collector, logger = Collector(logging.WARNING), logging.getLogger("torch.nested")
    logger.addHandler(collector)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
        messages += [str(item.message) for item in caught]
    finally:
        logger.removeHandler(collector)


@dataclass(frozen=True, slots=True)
class AttentionWay:
    """A way to compute the attention that runs here."""

    call: Callable[[], object]
    allowed: tuple[str, ...]
    """The backends that it may use."""
    unpack: Callable[[Any], torch.Tensor]
    """Returns the last head of the last sequence from a result."""

    def under(self, cache: Callable[[Call], Call]) -> Within:
        """Return the call to time, with the cache warm or cold."""
        return _restrict(self.allowed, cache(self.call))


def _collect_ways(
    study: Study, shape: AttentionShape, data: AttentionData, attend: Callable[[], object]
) -> dict[str, AttentionWay]:
    """Return the backends and functions that run here, and say why the others do not."""
    packed = pack(shape, data)
    ways: dict[str, AttentionWay] = {}

    def last_head(result: torch.Tensor) -> torch.Tensor:
        return result[-1, -1]

    def log_once(line: str) -> None:
        if line not in study.log:
            study.log_line(line)

    def add(
        name: str,
        build: Callable[[], Callable[[], object]],
        unpack: Callable[[Any], torch.Tensor] = last_head,
        allowed: Iterable[str] = BACKENDS,
        warned: bool = True,
    ) -> None:
        built: list[Callable[[], object]] = []

        def first_call() -> object:
            built.append(build())
            return _restrict(allowed, built[0])()

        if why := reason_against(first_call, warned=warned):
            log_once(f"{name}: does not run here: {why}")
        else:
            ways[name] = AttentionWay(built[0], tuple(allowed), unpack)

    for name in BACKENDS:
        add(name, lambda: attend, allowed=[name])
    add(NESTED, partial(nested_attention, packed, shape.causal), packed.last_head_of_nested)
    add(VARLEN, partial(varlen_attention, packed, shape.causal), packed.last_head)
    if study.quick:
        log_once(f"{FLEX}: a quick run does not compile it")
    else:
        add(FLEX, partial(flex_attention, shape, data), warned=False)
    return ways


def _compare(
    study: Study,
    table: str,
    title: str,
    ways: Mapping[str, AttentionWay],
    cache: Callable[[Call], Call],
    flop: int,
) -> None:
    """Compare the times of the ways, with the cache warm or cold."""
    calls = {name: way.under(cache) for name, way in ways.items()}
    per_call = (float(flop), "FLOP/s")
    study.variants(table, title, calls, per_call=per_call, peaks=True, check_rates=True)


def _differences(
    study: Study, ways: Mapping[str, AttentionWay], reference: torch.Tensor, tolerance: float
) -> None:
    """Compare each way's last head of the last sequence with the formula in float64."""
    from workloads.declare.place import against_float64

    study.table(
        "results", "result of the last head, against the formula in float64 on the CPU",
        "variant", "largest difference", "tolerance", "verdict",
    )  # fmt: skip
    reason = "the result, or the formula's, has no finite entries"
    for name, way in ways.items():
        result = way.unpack(_restrict(way.allowed, way.call)())
        check = against_float64(result, reference, tolerance, name)
        if check.error is None:
            study.unavailable["tables.results.largest difference"] = reason
        verdict = "passed" if check.passed else "wrong"
        study.row("results", name, check.error, tolerance, verdict)
