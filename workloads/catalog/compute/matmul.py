"""The product of two square matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workloads.declare.workload import Case, one_of, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    from workloads.declare.place import Place

CHECKED_ROWS, CHECKED_COLUMNS = 64, 1024


@workload(
    group="compute",
    title="square matrix product",
    about="Multiplies two n x n matrices of normally distributed numbers (cuBLAS on a GPU, MKL or "
    "its like on the CPU).",
    look_for="The share of the limit: large products come near it, small ones wait for memory or "
    "for their launch. For the tensor cores set dtype=bfloat16 or float16; the workload tf32 has "
    "them for float32. Entries of the product are checked against float64 on the CPU.",
)
def matmul(
    on: Place,
    n: Annotated[int, whole(1, 65_536, "rows and columns")] = 2048,
    dtype: Annotated[
        str, one_of(("float32", "bfloat16", "float16", "float64"), "of the numbers")
    ] = "float32",
) -> Case:
    import torch

    from workloads.declare import flop
    from workloads.declare.checks import TOLERANCES, against_float64
    from workloads.declare.place import DTYPES, precision

    made_as = DTYPES[dtype].itemsize if on.type != "cpu" else max(4, DTYPES[dtype].itemsize)
    checked = min(n, CHECKED_ROWS) * min(n, CHECKED_COLUMNS)
    on.require((3 * n * n + checked) * made_as, f"three {n} x {n} matrices of {dtype}")
    a, b = on.randn(n, n, dtype=dtype), on.randn(n, n, dtype=dtype)

    def timed(a: torch.Tensor = a, b: torch.Tensor = b) -> torch.Tensor:
        return a @ b

    used = precision(on, dtype, torch.backends.cuda.matmul.allow_tf32)

    def check() -> Check:
        rows, columns = min(n, CHECKED_ROWS), min(n, CHECKED_COLUMNS)
        reference = a[:rows].cpu().double() @ b[:, :columns].cpu().double()
        what = f"{rows} x {columns} entries of the product, in float64 on the CPU"
        return against_float64(timed()[:rows, :columns], reference, TOLERANCES[used], what)

    meta = torch.empty(n, n, device="meta")
    operations = flop.count(lambda: timed(meta, meta))
    moved = 3 * n * n * a.element_size()
    return Case(timed, flop=operations, byte=moved, precision=used, check=check)
