"""Every device under full load for a while: does it sustain its rate, and are results correct?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.protocol.results import Check, DataColumn, Setting

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

GPU_ROWS, CPU_ROWS = 8192, 1024
TICK_S = 0.25
"""Length of a tick; its products are queued at once and timed together."""
QUICK_S = 2
EDGE_S = 1.0
"""Length of the start and of the end, which are compared with each other."""
SLOWEST_SHARE = 0.9
"""Share of the machine's best GPU below which a GPU is suspicious (as in gpu-fryer)."""
CPU_TOLERANCE = 1e-4
"""Share of the largest entry. A GPU gives the same bits each time (cuBLAS documentation, "Results
reproducibility"); a CPU's library may sum in another order when its threads change."""
STRIP = 512
"""Rows to compare at a time."""
CHECKED_ROWS, CHECKED_COLUMNS = 64, 1024


class WrongProductError(RuntimeError):
    """A device computed two different results for the same product."""


class Burner:
    """One device that repeats one product, and its results."""

    def __init__(self, name: str, a: torch.Tensor, b: torch.Tensor) -> None:
        import torch

        self.name = name
        self.device = a.device
        self._a, self._b = a, b
        self._out = a @ b
        self._first = self._out.clone()
        self._tolerance = 0.0
        if self.device.type != "cuda":
            self._tolerance = CPU_TOLERANCE * float(self._first.abs().max())
        self._wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        self._products = 0
        self._began = 0.0
        self._events: tuple[torch.cuda.Event, torch.cuda.Event] | None = None

    def start(self, products: int) -> None:
        """Queue products, and compare the last of them with the very first."""
        import torch

        self._products, self._began = products, time.perf_counter()
        if self.device.type != "cuda":
            self._multiply(products)
            return
        with torch.cuda.device(self.device):
            first = torch.cuda.Event(enable_timing=True)
            last = torch.cuda.Event(enable_timing=True)
            first.record()
            self._multiply(products)
            last.record()
            self._events = (first, last)

    def _multiply(self, products: int) -> None:
        import torch

        for _ in range(products):
            torch.mm(self._a, self._b, out=self._out)

    def finish(self) -> float:
        """Wait for the queued products, and return their rate per second."""
        import torch

        if self._events is not None:
            first, last = self._events
            last.synchronize()
            seconds = first.elapsed_time(last) / 1e3
        else:
            if self.device.type == "mps":
                torch.mps.synchronize()
            seconds = time.perf_counter() - self._began
        # In strips: counting a whole matrix's Booleans takes eight bytes for each of them.
        for out, first in zip(self._out.split(STRIP), self._first.split(STRIP), strict=True):
            # ~(a <= b) and not a > b: NaN is wrong too.
            self._wrong += (~((out - first).abs() <= self._tolerance)).sum()
        return float(self._products / seconds)

    def wrong(self) -> int:
        """Return the number of entries that differed from the first product, over all ticks."""
        return int(self._wrong)


def _settings(on: Place, n: int, dtype: str) -> tuple[int, str]:
    """Return rows and dtype, with defaults for the type of device."""
    rows = n or (CPU_ROWS if on.type == "cpu" else GPU_ROWS)
    if dtype != "auto":
        return rows, dtype
    return rows, "bfloat16" if on.type == "cuda" else "float32"


@workload(
    group="multi-GPU",
    title="burn: a steady load on every device",
    about="The same large matrix product again and again, on all GPUs side by side (or on this "
    "device alone). The last product of every quarter of a second is compared with the first one: "
    "the same numbers must come out each time, on a CPU but for rounding.",
    look_for="A rate that stays level. A fall from the first second to the last is mostly heat or "
    "a power limit; a GPU well below its neighbours is worth a look; a wrong result is a broken "
    "device or memory. The power and the clocks are in the devices pane meanwhile.",
)
def burn(
    on: Place,
    seconds: Annotated[int, whole(1, 3600, f"of load; at most {QUICK_S} in a quick run")] = 5,
    n: Annotated[int, whole(1, 65_536, "rows", auto=by_device((CPU_ROWS, GPU_ROWS)))] = 0,
    dtype: Annotated[
        str,
        one_of(
            ("auto", "bfloat16", "float16", "float32", "float64"),
            "of the numbers; auto: bfloat16 on an NVIDIA GPU, else float32",
        ),
    ] = "auto",
    devices: Annotated[str, one_of(("all", "this"), "GPUs that are loaded")] = "all",
) -> Case:
    import torch

    from workloads.declare.place import (
        DTYPES,
        PARTIAL_SUMS,
        TOLERANCES,
        Place,
        against_float64,
        count_flop,
        precision,
    )

    rows, numbers = _settings(on, n, dtype)
    places = [on]
    if on.type == "cuda" and devices == "all":
        others = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        places += [Place(name) for name in others if torch.device(name) != on.device]
    size = DTYPES[numbers].itemsize * rows * rows
    # Two factors, the product and the first one; on the CPU, once, the first one's absolute values.
    matrices = 5 if on.type == "cpu" else 4
    # A strip's differences and their absolute values; or its truth values, counted as int64.
    strip = min(rows, STRIP) * rows * max(2 * DTYPES[numbers].itemsize, 1 + 8)
    for place in places:
        what = f"{matrices} {rows} x {rows} matrices of {numbers}"
        place.require(matrices * size + strip + PARTIAL_SUMS, what)
    a, b = on.randn(rows, rows, dtype=numbers), on.randn(rows, rows, dtype=numbers)

    def timed(a: torch.Tensor = a, b: torch.Tensor = b) -> torch.Tensor:
        return a @ b

    used = precision(on, numbers, "matmul")

    def check() -> Check:
        some, columns = min(rows, CHECKED_ROWS), min(rows, CHECKED_COLUMNS)
        reference = a[:some].cpu().double() @ b[:, :columns].cpu().double()
        what = f"{some} x {columns} entries of the product, in float64 on the CPU"
        return against_float64(timed()[:some, :columns], reference, TOLERANCES[used], what)

    meta = torch.empty(rows, rows, device="meta")
    operations = count_flop(lambda: timed(meta, meta))

    def study(found: Study) -> None:
        burners = []
        for place in places:
            data = (a, b) if place is on else (a.to(place.device), b.to(place.device))
            burners.append(Burner(str(place.device), *data))
        span = min(seconds, QUICK_S) if found.quick else seconds
        products = max(1, round(TICK_S / found.median_s))
        loaded_from = time.time()
        try:
            rates = _burn(found, burners, span, products, operations)
        finally:
            found.loaded(loaded_from, [burner.name for burner in burners])
        _sum_up(found, burners, rates)

    chosen: dict[str, Setting] = {"n": rows, "dtype": numbers}
    return Case(timed, flop=operations, precision=used, chosen=chosen, check=check, study=study)


Rates = list[tuple[float, list[float]]]
"""The end of each tick in seconds from the start, with each device's FLOP/s in it."""


def _burn(
    found: Study, burners: Sequence[Burner], span: float, products: int, operations: int
) -> Rates:
    names = [(burner.name, "FLOP/s") for burner in burners]
    found.chart("load", "rate over time", "s", *names)
    rates: Rates = []
    began = time.perf_counter()
    while not rates or rates[-1][0] < span:
        with found.watched():
            for burner in burners:
                burner.start(products)
            ticks = [burner.finish() * operations for burner in burners]
        rates.append((time.perf_counter() - began, ticks))
        found.point("load", round(rates[-1][0], 2), *ticks)
    return rates


def _sum_up(found: Study, burners: Sequence[Burner], rates: Rates) -> None:
    """Summarize each device.

    Raises:
        WrongProductError: a device's results for the same product differed.
    """
    found.table(
        "devices",
        "each device under load",
        DataColumn("device"),
        DataColumn("median", "FLOP/s"),
        DataColumn("first second", "FLOP/s"),
        DataColumn("last second", "FLOP/s"),
        DataColumn("change", "%"),
        DataColumn("wrong entries"),
    )
    falls, medians, wrong = [], [], []
    for index, burner in enumerate(burners):
        first, last = edges(rates, index)
        medians.append(statistics.median([ticks[index] for _, ticks in rates]))
        falls.append(1 - last / first)
        wrong.append(burner.wrong())
        change = 100 * (last / first - 1)
        found.row("devices", burner.name, medians[-1], first, last, change, float(wrong[-1]))
    about = "from the first second to the last, of the device that fell most; negative: it rose"
    found.figure("slow_down", 100 * max(falls), "%", about)
    if len(burners) > 1:
        share = min(medians) / max(medians)
        found.figure("slowest_device", 100 * share, "%", "its rate over that of the best")
        if share < SLOWEST_SHARE:
            name = burners[medians.index(min(medians))].name
            found.mark("load", f"{name} reaches {share:.0%} of the best device's rate")
    about = "of the last product of each tick, against the first product"
    found.figure("wrong_entries", float(sum(wrong)), "", about)
    if sum(wrong):
        named = ", ".join(
            f"{burner.name}: {count}" for burner, count in zip(burners, wrong, strict=True) if count
        )
        raise WrongProductError(f"entries that changed from product to product: {named}")


def edges(rates: Rates, device: int) -> tuple[float, float]:
    """Return the mean rates in the first and the last second, or in the first and last tick."""
    end = rates[-1][0]
    first = [ticks[device] for at, ticks in rates if at <= EDGE_S]
    last = [ticks[device] for at, ticks in rates if at > end - EDGE_S]
    first = first or [rates[0][1][device]]
    return sum(first) / len(first), sum(last) / len(last)
