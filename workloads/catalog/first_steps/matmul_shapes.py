"""Products of unequal shapes, and what bounds each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.products import (
    Shape,
    add_memory_rate,
    add_ridge,
    bound_by,
    launch_seconds,
    probe_bytes,
)
from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.limits import limits

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


SHAPES = (
    Shape("square", 1024, 1024, 1024),
    Shape("matrix-vector", 4096, 4096, 1),
    Shape("few columns", 4096, 4096, 8),
    Shape("smaller square", 512, 512, 512),  # as many operations as with few columns
    Shape("thin inner", 2048, 16, 2048),
    Shape("batch of small", 32, 32, 32, 1024),
)


@workload(
    group="first_steps",
    title="matrix products of several shapes",
    about="Multiplies a 1000 x 500 with a 500 x 200 matrix and shows the result's shape, strides, "
    "type and device, then times products of other shapes: square, matrix-vector, thin, batched.",
    look_for="FLOP per byte: a shape below the ridge (the machine's FLOP/s over its memory's "
    "byte/s, both measured here) waits for memory and cannot come near the square product's rate, "
    "or for the cache if its traffic exceeds the memory's rate. On a GPU small products wait for "
    "their launch.",
    question="Two products need the same number of operations. Can one of them take longer?",
    choices=(
        "no: equal work takes equal time",
        "only if they are of different types",
        "yes: one of them may wait for memory",
    ),
    right_choice=3,
    answer="Yes. A product with few operations per byte, such as a matrix times a few columns, "
    "waits for memory or the cache; a square one uses each number many times. The ridge says where "
    "the one case ends and the other begins.",
)
def matmul_shapes(
    on: Place,
    rows: Annotated[int, whole(1, 32_768, "rows of the first matrix")] = 1000,
    inner: Annotated[int, whole(1, 32_768, "its columns, the second's rows")] = 500,
    columns: Annotated[int, whole(1, 32_768, "columns of the second matrix")] = 200,
) -> Case:
    import torch

    from workloads.declare.place import count_flop, precision
    from workloads.scripts.matmul_shapes import multiply

    own = Shape("as set", rows, inner, columns)
    probe = probe_bytes(on)
    needed = own.byte + max(2 * probe, *(shape.byte for shape in (own, *SHAPES)))
    on.require(needed, "the largest of the products")
    x, y = on.randn(rows, inner), on.randn(inner, columns)
    timed = functools.partial(multiply, x, y)
    meta = torch.device("meta")
    operations = count_flop(lambda: multiply(x.to(meta), y.to(meta)))

    def study(study: Study) -> None:
        _facts(study, timed(), multiply(x.clone().requires_grad_(), y))
        _shapes(study, on, (own, *SHAPES), probe, used)

    used = precision(on, "float32", "matmul")
    # A thin product reads each number for few multiplications: the memory bounds it sooner.
    return Case(
        timed, flop=operations, byte=own.byte, precision=used, byte_limit="memory", study=study
    )


def _facts(study: Study, plain: torch.Tensor, recorded: torch.Tensor) -> None:
    study.table("facts", "the result", "fact", "of plain factors", "where x requires a gradient")
    facts: dict[str, Callable[[torch.Tensor], object]] = {
        "shape": lambda result: tuple(result.shape),
        "size()": lambda result: result.size(),
        "dtype": lambda result: result.dtype,
        "device": lambda result: result.device,
        "requires_grad": lambda result: result.requires_grad,
        "is_leaf": lambda result: result.is_leaf,
        "grad_fn": lambda result: result.grad_fn.name() if result.grad_fn else "none",
        "stride()": lambda result: result.stride(),
    }
    for name, fact_of in facts.items():
        study.row("facts", name, str(fact_of(plain)), str(fact_of(recorded)))
    study.log_line("print(result)")
    study.log_line(str(plain))


def _shapes(study: Study, on: Place, shapes: tuple[Shape, ...], probe: int, precision: str) -> None:
    from workloads.measure import environment

    launch_s = launch_seconds(study, on)
    study.figure("launch", launch_s, "s", "an addition of one number: launch and nothing else")
    memory = add_memory_rate(study, on, probe)
    seconds = [_time(study, on, shape) for shape in shapes]
    best = max(shape.flop / time for shape, time in zip(shapes, seconds, strict=True))
    ridge = add_ridge(study, best, memory)
    study.table(
        "shapes", "products in float32",
        "product", "shape", ("time", "s"), ("rate", "FLOP/s"), ("traffic", "byte/s"),
        "FLOP per byte", "waits for",
    )  # fmt: skip
    cache = environment.last_cache(on.device)
    for shape, time in zip(shapes, seconds, strict=True):
        intensity = shape.flop / shape.byte
        cached = shape.byte / time > memory
        bound = bound_by(time, intensity, ridge, launch_s, cached=cached)
        study.row(
            "shapes", shape.name, shape.text, time, shape.flop / time, shape.byte / time,
            intensity, bound,
        )  # fmt: skip
        study.check_rate(f"{shape.name} product", shape.flop / time, precision)
        if limits.cached(limits.MEMORY, shape.byte, cache) is None:
            study.check_rate(f"{shape.name} product", shape.byte / time, limits.MEMORY)


def _time(study: Study, on: Place, shape: Shape) -> float:
    from workloads.scripts.matmul_shapes import multiply

    a, b = on.randn(shape.batch, shape.m, shape.k), on.randn(shape.batch, shape.k, shape.n)
    if shape.batch == 1:
        a, b = a[0], b[0]
    return study.time(functools.partial(multiply, a, b))
