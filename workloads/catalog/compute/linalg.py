"""Equations and eigenvalues: what cuSOLVER (GPU) and LAPACK (CPU) do beside plain products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check, Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

MATRICES = 8
"""Held at once: the matrices themselves, and what a factorization and its workspace take."""
NO_COUNT = "it goes on until the values no longer change: its operations are not fixed"


def solve_flop(n: int, right: int) -> int:
    """FLOP of an LU factorization and both substitutions for ``right`` right-hand sides.

    Column k of the elimination takes n - k divisions and 2 (n - k)² further operations, 2/3 n³ in
    all; the substitutions 2 n² - n for each side (Golub, Van Loan, Matrix Computations, 3.1, 3.2).
    """
    return (4 * n**3 - 3 * n**2 - n) // 6 + right * (2 * n**2 - n)


def cholesky_flop(n: int) -> int:
    """FLOP of a Cholesky factorization: n³/3 + n²/2 + n/6 (Golub, Van Loan, 4.2)."""
    return (2 * n**3 + 3 * n**2 + n) // 6


@workload(
    group="compute",
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

    from workloads.declare.checks import TOLERANCES, against_float64, ratio

    host = 8 * n * (3 * n + 2 * right)
    on.require(4 * n * (MATRICES * n + 3 * right), f"matrices of {n} x {n}", host=host)
    # Eigenvalues of the random part lie within the unit disc (Girko's circular law): no small ones.
    identity = torch.eye(n, device=on.device)
    a = on.randn(n, n) / n**0.5 + 2 * identity
    b = on.randn(n, right)

    def timed() -> torch.Tensor:
        solution: torch.Tensor = torch.linalg.solve(a, b)
        return solution

    def check() -> Check:
        reference = torch.linalg.solve(a.cpu().double(), b.cpu().double())
        what = "the same equations solved in float64 on the CPU"
        return against_float64(timed(), reference, TOLERANCES["float32"], what)

    def study(found: Study) -> None:
        symmetric = (a + a.T) / 2
        positive = a @ a.T / n + identity
        calls: dict[str, tuple[int | None, Callable[[], object]]] = {
            "product": (2 * n**3, lambda: a @ symmetric),
            "Cholesky": (cholesky_flop(n), lambda: torch.linalg.cholesky(positive)),
            "symmetric eigenvalues": (None, lambda: torch.linalg.eigvalsh(symmetric)),
            "eigenvalues": (None, lambda: torch.linalg.eigvals(a)),
        }
        _operations(found, n, solve_flop(n, right), calls)
        sum_of_values = float(torch.linalg.eigvalsh(symmetric).double().sum())
        trace = float(symmetric.diagonal().double().sum())
        about = "sum of the symmetric matrix's eigenvalues over its trace: 1 but for rounding"
        found.figure("eigenvalues_over_trace", ratio(sum_of_values, trace), "", about)

    return Case(
        timed,
        clock="wall",
        flop=solve_flop(n, right),
        precision="float32",
        check=check,
        study=study,
    )


def _operations(
    found: Study, n: int, solve: int, calls: dict[str, tuple[int | None, Callable[[], object]]]
) -> None:
    """Each operation's time, its rate where its work is known, and its time in products."""
    found.table(
        "operations", f"n={n}, float32", Column("operation"), Column("time", "s"),
        Column("rate", "FLOP/s"), Column("time of a product", "x"),
    )  # fmt: skip
    found.unavailable["tables.operations.rate"] = NO_COUNT
    product_s = 0.0
    for name, (flop, call) in calls.items():
        try:
            seconds = found.time(call)
        except RuntimeError as error:
            # Not every build has a routine for each on a GPU.
            found.say(f"{name}: does not run here: {str(error).splitlines()[0]}")
            continue
        product_s = product_s or seconds
        rate = None if flop is None else flop / seconds
        found.row("operations", name, seconds, rate, seconds / product_s)
        if rate is not None and name != "product":
            found.hold(name, rate)
        if name == "product":
            found.row(
                "operations", "solve", found.median_s, solve / found.median_s,
                found.median_s / product_s,
            )  # fmt: skip
