"""The highest rates of this machine, as a reference for others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import NamedColumn, Study
from workloads.declare.workload import Case, one_of, workload
from workloads.limits import limits
from workloads.protocol.results import COPY, Cell, first_line

if TYPE_CHECKING:
    from workloads.declare.place import Place

PRECISIONS = ("float32", "tf32", "bfloat16", "float16", "float64")
COMMON, ALL = "common", "all"


@workload(
    group="health",
    title="ceilings of this machine",
    about="Measures the highest rate of matrix products and of a copy in memory, the best block of "
    "many. The other workloads are compared with it on a CPU, and on a GPU whose peak is neither "
    "published nor derived. It is stored for later runs, unless other processes on the CPU "
    "disturbed it; running this workload measures it again.",
    look_for="The share of its published peak that a GPU reaches: 70 to 90% is usual. A 16-bit "
    "rate far below the float32 rate means that this CPU has no units for it. Ceilings measured "
    "twice should agree within 5%; if not, something else was running, or the clock has changed.",
)
def ceiling(
    on: Place,
    kinds: Annotated[
        str,
        one_of((COMMON, ALL), "float32, bfloat16 and copy (on CUDA tf32 too), or each there is"),
    ] = COMMON,
) -> Case:
    import torch

    from workloads.declare.place import count_flop, precision
    from workloads.scripts.ceiling import multiply

    n = 1024 if on.type == "cpu" else 8192
    on.require(3 * n * n * 4, f"three {n} x {n} matrices of float32")
    a, b = on.randn(n, n), on.randn(n, n)

    def chosen_kinds() -> list[str]:
        left_out = set() if on.type == "cuda" else {"tf32"}
        if kinds == COMMON:
            left_out |= {"float16", "float64"}
        if on.type == "mps":
            left_out.add("float64")
        return [*(kind for kind in PRECISIONS if kind not in left_out), COPY]

    def study(study: Study) -> None:
        described = on.described()
        columns: list[NamedColumn] = ["hardware's", ("share", "%")] if on.type != "cpu" else []
        for kind in chosen_kinds():
            unit = "byte/s" if kind == COPY else "FLOP/s"
            table = "traffic" if kind == COPY else "products"
            if kind in (COPY, PRECISIONS[0]):
                title = "read and written by a copy" if kind == COPY else "matrix products"
                study.table(table, title, "kind", ("highest rate", unit), *columns, "how")
            try:
                measured = study.ceiling(kind)
            except RuntimeError as error:
                study.log_line(f"{kind}: {first_line(error)}")
                continue
            cells: list[Cell] = [kind, measured.value]
            if columns:
                limit_name = limits.MEMORY if kind == COPY else kind
                limit = limits.hardware_limit(described, limit_name, measured.value)
                cells += [None, None] if limit is None else [limit.source, 100 * limit.fraction]
            study.row(table, *cells, measured.how)

    meta = torch.empty(n, n, device="meta")
    used = precision(on, "float32", "matmul")
    operations = count_flop(lambda: multiply(meta, meta))
    return Case(partial(multiply, a, b), flop=operations, precision=used, study=study)
