"""Products with few rows, as in a language model's decode, and with weights of fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from workloads.catalog.shared.caches import (
    WARM,
    CacheState,
    cache_setter,
    compare_caches,
    flush_bytes,
)
from workloads.catalog.shared.products import (
    CHECKED_COLUMNS,
    add_memory_rate,
    add_ridge,
    bound_by,
    launch_seconds,
    probe_bytes,
)
from workloads.declare.study import Study
from workloads.declare.tools import Call
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.limits import limits
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

ROWS = (1, 2, 4, 8, 16, 32, 64)
SIZES = 2048, 8192
GROUP = 64
"""Weights of a row that share a scale and a zero in int4, as in gpt-fast and torchao's default."""
LEVELS = 15
"""Largest int4 code; 8 stands for the group's zero."""
INNER_TILES = 8
"""Layout of packed int4 weights on a GPU (ATen: ``int4mm.cu``, ``innerKTiles``)."""
INT8, INT4 = "int8", "int4"
OPERATORS = {
    INT8: "_weight_int8pack_mm",
    INT4: "_weight_int4pack_mm",
    "int4 on the CPU": "_weight_int4pack_mm_for_cpu",
    "packed": "_convert_weight_to_int4pack",
    "packed on the CPU": "_convert_weight_to_int4pack_for_cpu",
}
"""Names in ``torch.ops.aten`` of torch's own products with quantized weights."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A matrix of weights in fewer bits."""

    multiply: Callable[[torch.Tensor], torch.Tensor]
    """The product with a factor, rows x columns of the weights."""
    weights: torch.Tensor
    """The values that the codes stand for, float64 on the CPU."""
    size: int
    """Bytes of codes, scales and zeros."""


@workload(
    group="llm",
    title="products with few rows (decode)",
    about="Multiplies m rows with an n x n matrix of weights, as a language model does for m "
    "sequences that write a token each; for m from 1 to 64 and, beside them, m = n. Then with the "
    "weights in int8 (a scale per row) and int4 (a scale and a zero for 64 weights), which torch's "
    "kernels expand while they multiply.",
    look_for="The time hardly grows while m is small: reading the weights takes it, so more rows "
    "are free until the FLOP per byte reach the ridge. Where memory decides, int8 can halve and "
    "int4 quarter the time of 16 bits, if the kernel is good; compare its byte/s. Beyond the ridge "
    "fewer bits do not help. A model reads other weights in between: cache=cold is its case.",
)
def decode_gemm(
    on: Place,
    m: Annotated[int, whole(1, 4096, "rows: sequences that write a token")] = 1,
    n: Annotated[
        int, whole(1, 32_768, "rows and columns of the weights", auto=by_device(SIZES))
    ] = 0,
    dtype: Annotated[str, one_of(("bfloat16", "float16", "float32"), "element type")] = "bfloat16",
    cache: CacheState = WARM,
) -> Case:
    import torch

    from workloads.declare.place import (
        DTYPES,
        TOLERANCES,
        against_float64,
        count_flop,
        precision,
    )
    from workloads.scripts.decode_gemm import multiply

    n = on.sizes(n=(n, SIZES))["n"]
    itemsize = DTYPES[dtype].itemsize
    probe = probe_bytes(on)
    # Both square factors and their product, or the copy; in the study a matrix in float32 with
    # terms of its quantization.
    made_as = itemsize if on.type != "cpu" else max(4, itemsize)
    square = (3 * made_as + 2 * itemsize) * n * n
    needed = (
        max(square, 2 * made_as * n * n + 2 * probe, (itemsize + 24) * n * n) + 2 * m * n * made_as
    )
    # In float64: the weights by their codes, and their terms.
    on.require(needed + flush_bytes(on, cache), f"{n} x {n} weights", host=24 * n * n)
    x, weights = on.randn(m, n, dtype=dtype), on.randn(n, n, dtype=dtype)
    timed = partial(multiply, x, weights)
    under_cache = cache_setter(cache, on)

    def check() -> Check:
        columns = min(n, CHECKED_COLUMNS)
        reference = x.cpu().double() @ weights[:columns].cpu().double().T
        reference_name = f"{m} x {columns} entries of the product, in float64 on the CPU"
        return against_float64(timed()[:, :columns], reference, TOLERANCES[used], reference_name)

    def study(study: Study) -> None:
        def product(rows: int) -> Call:
            return under_cache(partial(multiply, on.randn(rows, n, dtype=dtype), weights))

        _roofline(study, on, product, n, itemsize, probe)
        _fewer_bits(study, timed, x, weights, under_cache)
        traffic = float(product_bytes(m, n, itemsize))
        compare_caches(study, on, timed, (traffic, "byte/s"), m * n * itemsize)

    used = precision(on, dtype, "matmul")
    meta = torch.device("meta")
    return Case(
        under_cache(timed),
        flop=count_flop(lambda: multiply(x.to(meta), weights.to(meta))),
        byte=product_bytes(m, n, itemsize),
        chosen={"n": n},
        precision=used,
        byte_limit="memory",
        check=check,
        study=study,
    )


def product_bytes(m: int, n: int, itemsize: int) -> int:
    """Return the bytes of both factors, read once, and of the product, written once."""
    return itemsize * (n * n + 2 * m * n)


def _roofline(
    study: Study,
    on: Place,
    product: Callable[[int], Call],
    n: int,
    itemsize: int,
    probe: int,
) -> None:
    """Add the products of few rows and the square one, with the bottleneck of each."""
    from workloads.measure import environment

    launch_s = launch_seconds(study, on)
    memory = add_memory_rate(study, on, probe)
    counts = [count for count in ROWS if count < n] + [n]
    seconds = {count: study.time(product(count)) for count in counts}
    best = max(2 * count * n * n / time for count, time in seconds.items())
    ridge = add_ridge(study, best, memory)
    study.table(
        "rows", f"m rows times {n} x {n}",
        "m", ("time", "s"), ("rate", "FLOP/s"), ("traffic", "byte/s"), "FLOP per byte", "waits for",
    )  # fmt: skip
    study.chart("roofline", "rate over intensity", "FLOP per byte", ("rate", "FLOP/s"))
    cache = environment.last_cache(on.device)
    for count, time in seconds.items():
        flop, moved = 2 * count * n * n, product_bytes(count, n, itemsize)
        intensity = flop / moved
        bound = bound_by(time, intensity, ridge, launch_s, cached=moved / time > memory)
        study.row("rows", float(count), time, flop / time, moved / time, intensity, bound)
        study.point("roofline", intensity, flop / time)
        study.check_rate(f"m={count}", flop / time)
        if limits.cached(limits.MEMORY, moved, cache) is None:
            study.check_rate(f"m={count}", moved / time, limits.MEMORY)
    study.mark("roofline", f"ridge at {ridge:.3g} FLOP per byte")


def _fewer_bits(
    study: Study,
    product: Callable[[], torch.Tensor],
    x: torch.Tensor,
    weights: torch.Tensor,
    under_cache: Callable[[Call], Call],
) -> None:
    """Add the same product with int8 and int4 weights, where torch has one."""
    calls: dict[str, Callable[[], torch.Tensor]] = {"as they are": product}
    sizes = {"as they are": weights.nbytes}
    largest_errors: dict[str, float] = {}
    rows = x.cpu().double()
    for name, quantize in ((INT8, quantized_int8), (INT4, quantized_int4)):
        try:
            quantized = quantize(weights)
            call = partial(quantized.multiply, x)
            result = call().cpu().double()
        except (RuntimeError, AttributeError) as error:
            study.log_line(f"{name}: does not run here: {first_line(error)}")
            continue
        reference = rows @ quantized.weights.T
        largest_errors[name] = float((result - reference).abs().max() / reference.abs().max())
        calls[name], sizes[name] = call, quantized.size
    variants = study.compare({name: under_cache(call) for name, call in calls.items()})
    study.table(
        "bits", f"weights of fewer bits, m={len(x)}",
        "weights", ("time", "s"), ("size", "byte"), ("traffic", "byte/s"), ("speed-up", "x"),
        "verdict", "error of the product",
    )  # fmt: skip
    study.unavailable["tables.bits.error of the product"] = "the check has it"
    other = x.nbytes + x.element_size() * len(x) * len(weights)
    for variant in variants:
        size = sizes[variant.name]
        traffic = (size + other) / variant.median_s
        study.row(
            "bits", variant.name, variant.median_s, float(size), traffic, variant.ratio,
            variant.verdict, largest_errors.get(variant.name),
        )  # fmt: skip


def _operator(name: str) -> Any:
    """Return one of :data:`OPERATORS`.

    Raises:
        AttributeError: this torch lacks it.
    """
    import torch

    return getattr(torch.ops.aten, OPERATORS[name])


def quantized_int8(weights: torch.Tensor) -> Quantized:
    """Return weights with a scale for each row, rounded to -127 … 127.

    Raises:
        RuntimeError: torch has no such product for this device or dtype.
        AttributeError: this torch has none at all.
    """
    import torch

    values = weights.float()
    scales = (values.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
    codes = (values / scales[:, None]).round().to(torch.int8)
    scales = scales.to(weights.dtype)
    operator = _operator(INT8)
    meaning = codes.cpu().double() * scales.cpu().double()[:, None]
    return Quantized(lambda x: operator(x, codes, scales), meaning, codes.nbytes + scales.nbytes)


def quantized_int4(weights: torch.Tensor) -> Quantized:
    """Return weights with a scale and a zero for each :data:`GROUP`, rounded to 0 … 15.

    Raises:
        RuntimeError: torch has no such product for this device, dtype or shape.
        AttributeError: this torch has none at all.
    """
    import torch

    rows, columns = weights.shape
    if columns % GROUP:
        raise RuntimeError(f"{columns} columns are not groups of {GROUP}")
    values = weights.float().view(rows, -1, GROUP)
    low, high = values.amin(-1), values.amax(-1)
    scales = ((high - low) / LEVELS).clamp(min=torch.finfo(torch.float16).tiny)
    codes = ((values - low[..., None]) / scales[..., None]).round().clamp(0, LEVELS)
    codes = codes.to(torch.int32).view(rows, columns)
    # Groups x rows x 2: a code stands for (code - 8) * scale + zero.
    pairs = torch.stack([scales, low + 8 * scales], -1).transpose(0, 1).contiguous()
    pairs = pairs.to(weights.dtype)
    if weights.device.type == "cpu":
        packed = _operator("packed on the CPU")(codes, 1)
        operator = _operator("int4 on the CPU")
    else:
        halves = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
        packed = _operator("packed")(halves, INNER_TILES)
        operator = _operator(INT4)
    scale, zero = (part.T.cpu().double()[..., None] for part in pairs.unbind(-1))
    meaning = (codes.cpu().double().view(rows, -1, GROUP) - 8) * scale + zero
    return Quantized(
        lambda x: operator(x, packed, GROUP, pairs),
        meaning.view(rows, columns),
        packed.nbytes + pairs.nbytes,
    )
