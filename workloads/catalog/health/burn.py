"""Every device under full load for a while: does it sustain its rate, and are results correct?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.health.burner import CPU_TOLERANCE, STRIP, Burner, Steady, find_steady
from workloads.catalog.shared.products import check_product
from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, one_of, whole, workload
from workloads.protocol.results import Check, Setting

if TYPE_CHECKING:
    from workloads.declare.place import Place

GPU_ROWS, CPU_ROWS = 8192, 1024
TICK_S = 0.25
"""Length of a tick; its products are queued at once and timed together."""
QUICK_S = 2
EDGE_S = 1.0
"""Length of the start and of the end, which are compared with each other."""
SLOWEST_SHARE = 0.9
"""Share of the machine's best GPU below which a GPU is suspicious (as in gpu-fryer)."""
OFF, ON = "off", "on"
MOST_ROWS = 50
"""Rows of the table of wrong products; a broken device could fill it without end."""


class WrongProductError(RuntimeError):
    """A device computed two different results for the same product."""


def _settings(on: Place, n: int, dtype: str) -> tuple[int, str]:
    """Return rows and dtype, with defaults for the type of device."""
    rows = n or (CPU_ROWS if on.type == "cpu" else GPU_ROWS)
    if dtype != "auto":
        return rows, dtype
    return rows, "bfloat16" if on.type == "cuda" else "float32"


@workload(
    group="health",
    title="a steady load on every device",
    about="The same large matrix product again and again, on all GPUs side by side (or on this "
    "device alone). The last product of every quarter of a second is compared with the first one, "
    "with verify=on one in every so many products: the same bits must come out each time, on a CPU "
    "the same numbers except for rounding. NVML gives clock and temperature four times a second.",
    look_for="A rate that stays level, and how long the clock takes to settle. A fall from the "
    "first second to the last is mostly heat or a power limit; a GPU well below its neighbours is "
    "worth a look. A wrong result is a broken device or memory: its time and temperature are "
    "listed, so look for Xid errors in the kernel's log.",
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
    verify: Annotated[str, one_of((OFF, ON), "compare also during a tick, bit for bit")] = OFF,
    every: Annotated[int, whole(1, 100_000, "products per comparison, with verify=on")] = 10,
) -> Case:
    import torch

    from workloads.declare.place import (
        DTYPES,
        PARTIAL_SUMS,
        Place,
        count_flop,
        precision,
    )
    from workloads.scripts.burn import multiply

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
        purpose = f"{matrices} {rows} x {rows} matrices of {numbers}"
        place.require(matrices * size + strip + PARTIAL_SUMS, purpose)
    a, b = on.randn(rows, rows, dtype=numbers), on.randn(rows, rows, dtype=numbers)

    used = precision(on, numbers, "matmul")

    def check() -> Check:
        return check_product(a, b, multiply(a, b), used)

    meta = torch.empty(rows, rows, device="meta")
    operations = count_flop(lambda: multiply(meta, meta))

    def study(study: Study) -> None:
        burners = []
        for place in places:
            data = (a, b) if place is on else (a.to(place.device), b.to(place.device))
            burners.append(Burner(str(place.device), *data, every if verify == ON else None))
        if verify == ON and on.type != "cuda":
            study.log_line(
                f"compared within {CPU_TOLERANCE:g} of the largest entry, not bit for bit: a CPU's "
                "library may sum in another order"
            )
        span = min(seconds, QUICK_S) if study.quick else seconds
        products = max(1, round(TICK_S / study.median_s))
        loaded_from = time.time()
        try:
            load = _burn(study, burners, span, products, operations)
        finally:
            study.loaded(loaded_from, [burner.name for burner in burners])
        _sum_up(study, burners, load)

    chosen: dict[str, Setting] = {"n": rows, "dtype": numbers}
    timed = partial(multiply, a, b)
    return Case(timed, flop=operations, precision=used, chosen=chosen, check=check, study=study)


Rates = list[tuple[float, list[float]]]
"""The end of each tick in seconds from the start, with each device's FLOP/s in it."""


@dataclass(frozen=True, slots=True)
class WrongProducts:
    """Results of one tick that differed from the first product."""

    device: str
    after_s: float
    """Seconds from the start of the load to the end of the tick."""
    at: float
    """Unix time of it."""
    entries: int
    temperature_c: int | None

    @property
    def time(self) -> str:
        """Return the local time, to find it in the system's logs."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at))


@dataclass(slots=True)
class LoadReadings:
    """The measurements under load, by device in the order of the burners."""

    rates: Rates = field(default_factory=list)
    clocks: list[tuple[float, list[float | None]]] = field(default_factory=list)
    """Seconds from the start, and MHz."""
    temperatures: list[list[int | None]] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    """Why NVML did not give a figure, by its name in ``DeviceState``."""
    wrong: list[WrongProducts] = field(default_factory=list)
    compared: int = 0


def _burn(
    study: Study, burners: Sequence[Burner], span: float, products: int, operations: int
) -> LoadReadings:
    study.chart("load", "rate over time", "s", *((burner.name, "FLOP/s") for burner in burners))
    load = LoadReadings()
    began = time.perf_counter()
    while not load.rates or load.rates[-1][0] < span:
        with study.watched():
            for burner in burners:
                burner.start(products)
            _sample(load, burners, time.perf_counter() - began)
            ticks = [burner.finish() for burner in burners]
        after, rates = time.perf_counter() - began, [tick.rate * operations for tick in ticks]
        load.rates.append((after, rates))
        load.compared += sum(tick.compared for tick in ticks)
        for index, tick in enumerate(ticks):
            if tick.wrong:
                degrees = load.temperatures[-1][index]
                name = burners[index].name
                load.wrong.append(WrongProducts(name, after, time.time(), tick.wrong, degrees))
                _report(study, load)
        study.point("load", round(after, 2), *rates)
    return load


def _sample(load: LoadReadings, burners: Sequence[Burner], at: float) -> None:
    """Read temperatures and clocks, while the devices compute."""
    states = [burner.read_state() for burner in burners]
    load.clocks.append((at, [state.sm_mhz for state in states]))
    load.temperatures.append([state.temperature_c for state in states])
    for state in states:
        load.unavailable.update(state.unavailable)


def _report(study: Study, load: LoadReadings) -> None:
    """Add the newest wrong products to their table."""
    if len(load.wrong) == 1:
        study.table(
            "wrong", "products that differed from the first one",
            "device", ("after", "s"), "time", "wrong entries", ("temperature", "°C"),
        )  # fmt: skip
        if "temperature_c" in load.unavailable:
            reason = load.unavailable["temperature_c"]
            study.unavailable["tables.wrong.temperature"] = reason
    if len(load.wrong) <= MOST_ROWS:
        wrong = load.wrong[-1]
        degrees = None if wrong.temperature_c is None else float(wrong.temperature_c)
        study.row("wrong", wrong.device, wrong.after_s, wrong.time, float(wrong.entries), degrees)
    elif len(load.wrong) == MOST_ROWS + 1:
        study.log_line(
            f"more than {MOST_ROWS} ticks had wrong products: the table has the first ones"
        )


def _sum_up(study: Study, burners: Sequence[Burner], load: LoadReadings) -> None:
    """Summarize each device.

    Raises:
        WrongProductError: a device's results for the same product differed.
    """
    study.table(
        "devices", "each device under load",
        "device", ("median", "FLOP/s"), ("first second", "FLOP/s"), ("last second", "FLOP/s"),
        ("change", "%"), ("steady clock", "MHz"), ("reached after", "s"), ("hottest", "°C"),
        "wrong entries",
    )  # fmt: skip
    steadies = _clocks(study, burners, load)
    if "temperature_c" in load.unavailable:
        study.unavailable["tables.devices.hottest"] = load.unavailable["temperature_c"]
    falls, medians = [], []
    for index, burner in enumerate(burners):
        first, last = edges(load.rates, index)
        medians.append(statistics.median([ticks[index] for _, ticks in load.rates]))
        falls.append(1 - last / first)
        steady = steadies[index]
        known = [row[index] for row in load.temperatures if row[index] is not None]
        hottest = float(max(degrees for degrees in known if degrees is not None)) if known else None
        wrong = sum(result.entries for result in load.wrong if result.device == burner.name)
        study.row(
            "devices", burner.name, medians[-1], first, last, 100 * (last / first - 1),
            steady.mhz if steady else None, steady.after_s if steady else None, hottest,
            float(wrong),
        )  # fmt: skip
    about = "from the first second to the last, of the device that fell most; negative: it rose"
    study.figure("slow_down", 100 * max(falls), "%", about)
    if len(burners) > 1:
        share = min(medians) / max(medians)
        study.figure("slowest_device", 100 * share, "%", "its rate over that of the best")
        if share < SLOWEST_SHARE:
            name = burners[medians.index(min(medians))].name
            study.mark("load", f"{name} reaches {share:.0%} of the best device's rate")
    study.figure(
        "compared_products", float(load.compared), "", "with the first one, entry by entry"
    )
    entries = sum(wrong.entries for wrong in load.wrong)
    study.figure("wrong_entries", float(entries), "", "in the compared products")
    if load.wrong:
        raise WrongProductError(describe_wrong(load.wrong))


def _clocks(study: Study, burners: Sequence[Burner], load: LoadReadings) -> list[Steady | None]:
    """Add the clocks over time and their steady states, or say why there are none."""
    states = [
        find_steady([(at, row[index]) for at, row in load.clocks]) for index in range(len(burners))
    ]
    longer = f"a quick run loads for {QUICK_S} s" if study.quick else "raise seconds"
    reason = load.unavailable.get("sm_mhz") or next(
        (f"{state}: {longer}" for state in states if isinstance(state, str)), None
    )
    if "sm_mhz" not in load.unavailable:
        names = [(burner.name, "MHz") for burner in burners]
        study.chart("clocks", "clock of the multiprocessors over time", "s", *names)
        for at, row in load.clocks:
            study.point("clocks", round(at, 2), *row)
    steadies = [state if isinstance(state, Steady) else None for state in states]
    about = "of the multiprocessors under load, at the end; of the device with the lowest"
    later = "until the clock of the last device stayed within 2% of that"
    if reason is None:
        reached = [steady for steady in steadies if steady is not None]
        study.figure("steady_clock", min(steady.mhz for steady in reached), "MHz", about)
        study.figure("steady_after", max(steady.after_s for steady in reached), "s", later)
    else:
        study.absent("steady_clock", reason, "MHz", about)
        study.absent("steady_after", reason, "s", later)
        for column in ("steady clock", "reached after"):
            study.unavailable[f"tables.devices.{column}"] = reason
    return steadies


def describe_wrong(wrong: Sequence[WrongProducts]) -> str:
    """Describe wrong products in one line: for each device how many, and when they began."""
    sentences = []
    for device in dict.fromkeys(result.device for result in wrong):
        own = [result for result in wrong if result.device == device]
        first, entries = own[0], sum(result.entries for result in own)
        degrees = "" if first.temperature_c is None else f", at {first.temperature_c} °C"
        sentences.append(
            f"{device}: {entries} {'entry' if entries == 1 else 'entries'}, "
            f"first after {first.after_s:.1f} s ({first.time}{degrees})"
        )
    return f"entries that changed from product to product: {'; '.join(sentences)}"


def edges(rates: Rates, device: int) -> tuple[float, float]:
    """Return the mean rates in the first and the last second, or in the first and last tick."""
    end = rates[-1][0]
    first = [ticks[device] for at, ticks in rates if at <= EDGE_S]
    last = [ticks[device] for at, ticks in rates if at > end - EDGE_S]
    first = first or [rates[0][1][device]]
    return sum(first) / len(first), sum(last) / len(last)
