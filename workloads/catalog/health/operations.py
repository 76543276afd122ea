"""Operations beside products: reductions and linear systems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.caches import (
    WARM,
    CacheState,
    cache_setter,
    compare_caches,
    flush_bytes,
)
from workloads.declare.study import Study
from workloads.declare.workload import Case, one_of, whole, workload
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    from workloads.declare.place import Place


@workload(
    group="health",
    title="reductions and normalizations",
    about="Sum, softmax and layer norm over the rows of a matrix: a few operations for each number "
    "that is read, so the memory's rate decides.",
    look_for="Each rate beside that of a plain copy of the same matrix: a good kernel reads its "
    "input once and comes near it. Softmax made of single operations moves the matrix several "
    "times; the fused one does not. Half the bits are half the bytes: where memory decides, a "
    "16-bit type takes half the time. On a CPU the exponentials of softmax take their own time.",
)
def reductions(
    on: Place,
    rows: Annotated[int, whole(1, 1_048_576, "rows")] = 32_768,
    columns: Annotated[int, whole(2, 131_072, "numbers in a row")] = 1024,
    dtype: Annotated[str, one_of(("float32", "bfloat16", "float16"), "of the numbers")] = "float32",
    cache: CacheState = WARM,
) -> Case:
    import torch

    from workloads.declare.place import DTYPES
    from workloads.scripts.reductions import softmax, softmax_by_hand

    itemsize = DTYPES[dtype].itemsize
    size = itemsize * rows * columns
    needed = 5 * size + flush_bytes(on, cache)
    on.require(needed, f"a {rows} x {columns} matrix and what is made of it")
    x = on.randn(rows, columns, dtype=dtype)
    target = torch.empty_like(x)
    under_cache = cache_setter(cache, on)

    timed = partial(softmax, x)

    def study(study: Study) -> None:
        calls: dict[str, tuple[float, Callable[[], object]]] = {
            "copy": (2.0 * size, lambda: target.copy_(x)),
            "sum of all": (size, x.sum),
            "sum of rows": (size + float(itemsize * rows), lambda: x.sum(dim=1)),
            "softmax": (2.0 * size, timed),
            "softmax by hand": (2.0 * size, partial(softmax_by_hand, x)),
            "layer norm": (
                2.0 * size,
                lambda: torch.nn.functional.layer_norm(x, (columns,)),
            ),
        }
        study.table(
            "operations", f"{rows} x {columns}, {dtype}, {cache} cache; bytes of one pass",
            "operation", ("time", "s"), ("rate", "byte/s"), ("of the copy's rate", "%"),
        )  # fmt: skip
        variants = study.compare({name: under_cache(call) for name, (_, call) in calls.items()})
        copy_rate = calls["copy"][0] / variants[0].median_s
        for variant in variants:
            rate = calls[variant.name][0] / variant.median_s
            study.row("operations", variant.name, variant.median_s, rate, 100 * rate / copy_rate)
            if calls[variant.name][0] >= 2 * size:
                # What only reads half of that may keep a part of it in the cache.
                study.check_rate(variant.name, rate)
        compare_caches(study, on, timed, (2.0 * size, "byte/s"), size)

    return Case(under_cache(timed), byte=2 * size, byte_limit="memory", study=study)


MATRICES_HELD = 8
"""Matrices in memory at once: the data, a factorization and its workspace."""
NO_COUNT = "it goes on until the values no longer change: its operations are not fixed"


@workload(
    group="health",
    title="equations and eigenvalues",
    about="torch.linalg.solve of n equations, by LU factorization; beside it a Cholesky "
    "factorization and the eigenvalues of a symmetric and of a general matrix. On a GPU cuSOLVER "
    "does them, with cuBLAS for the products within; on the CPU LAPACK. float32.",
    look_for="The rate beside that of a plain product: each column waits for the one before it, so "
    "a factorization fills the machine only once it is large. Eigenvalues take many times as long, "
    "those of a general matrix longest; use eigvalsh where the matrix is symmetric. A GPU gets "
    "ahead of the CPU at a far larger n than with products.",
    devices=("cpu", "cuda"),
)
def linalg(
    on: Place,
    n: Annotated[int, whole(2, 16_384, "rows and columns")] = 384,
    right: Annotated[int, whole(1, 16_384, "right-hand sides")] = 1,
) -> Case:
    import torch

    from workloads.declare.place import (
        TOLERANCES,
        against_float64,
        cholesky_flop,
        ratio,
        solve_flop,
    )
    from workloads.scripts.linalg import solve

    host = 8 * n * (3 * n + 2 * right)
    on.require(4 * n * (MATRICES_HELD * n + 3 * right), f"matrices of {n} x {n}", host=host)
    # Eigenvalues of the random part lie within the unit disc (Girko's circular law): no small ones.
    identity = torch.eye(n, device=on.device)
    a = on.randn(n, n) / n**0.5 + 2 * identity
    b = on.randn(n, right)

    timed = partial(solve, a, b)

    def check() -> Check:
        reference_name = "the same equations solved in float64 on the CPU"
        try:
            reference = torch.linalg.solve(a.cpu().double(), b.cpu().double())
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            # Those that were drawn have a solution: the device did not draw them.
            why = first_line(error)
            return Check(
                False, None, TOLERANCES["float32"], f"{reference_name}, which fails: {why}"
            )
        return against_float64(timed(), reference, TOLERANCES["float32"], reference_name)

    def study(study: Study) -> None:
        symmetric = (a + a.T) / 2
        positive = a @ a.T / n + identity
        calls: dict[str, tuple[int | None, Callable[[], object]]] = {
            "product": (2 * n**3, lambda: a @ symmetric),
            "Cholesky": (cholesky_flop(n), lambda: torch.linalg.cholesky(positive)),
            "symmetric eigenvalues": (None, lambda: torch.linalg.eigvalsh(symmetric)),
            "eigenvalues": (None, lambda: torch.linalg.eigvals(a)),
        }
        _linalg_operations(study, n, solve_flop(n, right), calls)
        sum_of_values = float(torch.linalg.eigvalsh(symmetric).double().sum())
        trace = float(symmetric.diagonal().double().sum())
        about = "sum of the symmetric matrix's eigenvalues over its trace: 1 except for rounding"
        study.figure("eigenvalues_over_trace", ratio(sum_of_values, trace), "", about)

    return Case(
        timed,
        clock="wall",
        flop=solve_flop(n, right),
        precision="float32",
        check=check,
        study=study,
    )


def _linalg_operations(
    study: Study, n: int, solve: int, calls: dict[str, tuple[int | None, Callable[[], object]]]
) -> None:
    """Add each operation's time, its rate where its work is known, and its time in products."""
    study.table(
        "operations", f"n={n}, float32",
        "operation", ("time", "s"), ("rate", "FLOP/s"), ("time of a product", "x"),
    )  # fmt: skip
    study.unavailable["tables.operations.rate"] = NO_COUNT
    product_s = 0.0
    for name, (flop, call) in calls.items():
        try:
            seconds = study.time(call)
        except RuntimeError as error:
            # Some builds lack one of the routines on a GPU.
            study.log_line(f"{name}: does not run here: {first_line(error)}")
            continue
        product_s = product_s or seconds
        rate = None if flop is None else flop / seconds
        study.row("operations", name, seconds, rate, seconds / product_s)
        if rate is not None and name != "product":
            study.check_rate(name, rate)
        if name == "product":
            study.row(
                "operations", "solve", study.median_s, solve / study.median_s,
                study.median_s / product_s,
            )  # fmt: skip
