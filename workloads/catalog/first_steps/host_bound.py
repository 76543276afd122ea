"""Loops that make the device wait for Python: .item(), copies, and models that are too small."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, by_device, whole, workload
from workloads.measure import estimates
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


LOOP_SIZES = (16, 64, 256, 1024)
WIDTHS = (4, 16, 64, 256, 1024)
LAYERS = 8


@workload(
    group="first_steps",
    title=".item() in the loop",
    about="loss.item() brings a number to Python and so waits until the device has done all that "
    "was queued. Called in each step, it lets the queue run dry each time. Timed is the other way: "
    "the sum is kept on the device and read once at the end, and the steps are queued freely.",
    look_for="On a GPU the way with .item() takes longer, the more so the smaller the step. On the "
    "CPU a call that has returned is done, there is nothing to wait for, and both take the same. "
    "print(loss), float(loss), loss.tolist() and if loss > x wait just as .item() does.",
    question="Which of these wait for the GPU: loss.item(), print(loss), loss + 1?",
    choices=(
        "only loss.item()",
        "loss.item() and print(loss)",
        "all three",
    ),
    right_choice=2,
    answer="The first two: they need the number in Python, so all queued work has to be done "
    "first. loss + 1 is only queued. Keep the sum on the device, and read it once at the end.",
)
def item_in_loop(
    on: Place,
    steps: Annotated[int, whole(1, 10_000, "steps of the loop")] = 50,
    width: Annotated[int, whole(1, 16_384, "width of the layer")] = 64,
    batch: Annotated[int, whole(1, 65_536, "samples of a step")] = 64,
) -> Case:
    from workloads.declare.place import relative
    from workloads.scripts.item_in_loop import item_at_end, item_each_step

    on.require(4 * width * (width + 4 * batch), "the layer and its data")
    inputs, weights = on.randn(batch, width), on.randn(width, width)

    timed = partial(item_at_end, inputs, weights, steps)
    in_each = partial(item_each_step, inputs, weights, steps)

    def check() -> Check:
        own, other = timed(), in_each()
        return relative(abs(own - other), abs(other), 1e-4, "the sum made in Python")

    def study(study: Study) -> None:
        ways: dict[str, Callable[[], object]] = {
            ".item() in each step": in_each,
            "one .item() at the end": timed,
        }
        pair = study.variants(
            "ways", f"{steps} steps", ways, per_call=(steps, "steps/s"), clock="wall"
        )
        waits = (pair[0].median_s - pair[1].median_s) / steps
        about = "more time per step with .item() in it"
        if on.type == "cpu":
            reason = "a CPU call that has returned is done: there is nothing to wait for"
            study.absent("wait_per_step", reason, "s", about)
            return
        study.figure("wait_per_step", waits, "s", about)

    return Case(timed, clock="wall", item=steps * batch, check=check, study=study)


@workload(
    group="first_steps",
    title="Python loop against one operation",
    about="The same sum of products three ways: indexing a tensor element by element in Python, "
    "plain Python floats, and one vectorised expression, which is what is timed. Each indexing is "
    "an operation of its own: made, dispatched and on a GPU launched, for a single number.",
    look_for="The loop's time grows with n, that of the expression hardly at all until n is large: "
    "until then the factor between them grows with n. A loop over tensor elements is slower even "
    "than one over Python floats; on a GPU it is at its worst, a launch for each number.",
    question="Why is a loop over the elements of a tensor slower than the same loop over a list of "
    "floats?",
    choices=(
        "each index is a torch operation of its own",
        "Python checks the type of each element",
        "a tensor stores its elements as Python objects",
    ),
    right_choice=1,
    answer="Each index is a torch operation of its own: Python, the dispatcher and, on a GPU, a "
    "launch, for a single number. One expression over the whole tensor pays that once.",
)
def python_loop(
    on: Place,
    n: Annotated[int, whole(1, 100_000, "elements")] = 1000,
) -> Case:
    from workloads.declare.place import PARTIAL_SUMS
    from workloads.scripts.python_loop import float_loop, one_expression, tensor_loop

    # Two vectors and two made of them.
    on.require(4 * 4 * n + PARTIAL_SUMS, f"four vectors of {n}")
    a, b = on.randn(n), on.randn(n)

    timed = partial(one_expression, a, b)
    in_floats = partial(float_loop, a.tolist(), b.tolist())

    def check() -> Check:
        reference = in_floats()
        error = abs(float(timed()) - reference) / max(1.0, abs(reference))
        return Check(error < 1e-3, error, 1e-3, "the sum by Python's own floats (float64)")

    def study(study: Study) -> None:
        ways: dict[str, Callable[[], object]] = {
            "loop over tensor elements": partial(tensor_loop, a, b),
            "loop over Python floats": in_floats,
            "one expression": timed,
        }
        study.variants("ways", f"{n} elements", ways, per_call=(n, "elements/s"), clock="wall")
        series = (("loop", "s"), ("one expression", "s"), ("speed-up", "x"))
        study.chart("sizes", "time over the number of elements", "n", *series)
        for size in (*(size for size in LOOP_SIZES if size < n), n):
            few = (a[:size], b[:size])
            slow = study.time(partial(tensor_loop, *few), "wall")
            fast = study.time(partial(one_expression, *few), "wall")
            study.point("sizes", size, slow, fast, slow / fast)
        study.mark("sizes", f"each element costs the loop {slow / n * 1e6:.2g} µs")
        study.figure("per_element", slow / n, "s", "of the loop over tensor elements")

    return Case(timed, clock="wall", item=n, check=check, study=study)


@workload(
    group="first_steps",
    title="a model too small for a GPU",
    about=f"{LAYERS} linear layers with ReLU on a small batch, without gradients. Each operation "
    "costs its launch: Python, the dispatcher and on a GPU the driver, some microseconds whatever "
    "its size. While the layers are narrow, nearly all of the time is launches.",
    look_for="The flat left end of the curve: there a wider layer takes no more time. On a GPU all "
    "of that time is launches, each of which takes longer than a call on the CPU, so that the CPU "
    "is faster. The mark says where the GPU overtakes. On the CPU alone: how the share of overhead "
    "falls as the layers widen.",
    question="A layer gets twice as wide, and the time hardly changes. What did the time go to?",
    choices=(
        "to the launches",
        "to reading the weights",
        "to copying the input to the device",
    ),
    right_choice=1,
    answer="To the launches: Python, the dispatcher and, on a GPU, the driver take the same time "
    "for each operation, however small. Width costs time only where the computation takes longer "
    "than that.",
)
def tiny_model(
    on: Place,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 16,
    batch: Annotated[int, whole(1, 65_536, "samples")] = 8,
) -> Case:
    import torch

    from workloads.declare.place import SEED
    from workloads.scripts.tiny_model import build, forward

    # The model that is timed beside the widest of the study, and the results of a layer.
    numbers = sum(LAYERS * wide * (wide + 1) + 4 * batch * wide for wide in (width, WIDTHS[-1]))
    on.require(4 * numbers, "the model that is timed and the widest of the others")
    operations = 2 * LAYERS

    def built(width: int, device: torch.device) -> Callable[[], object]:
        torch.manual_seed(SEED)
        model = build(LAYERS, width, device)
        return partial(forward, model, on.host_randn(batch, width).to(device))

    timed = built(width, on.device)

    def study(study: Study) -> None:
        on_cpu = on.type == "cpu"
        names = ["CPU"] if on_cpu else [on.type.upper(), "CPU"]
        series = [(name, "s") for name in names]
        study.chart("widths", "time over width", "width", *series, ("overhead", "%"))
        floor, times = 0.0, []
        for hidden in WIDTHS:
            seconds = [study.time(built(hidden, on.device), "wall")]
            if not on_cpu:
                seconds.append(study.time(built(hidden, torch.device("cpu")), "wall"))
            # The narrowest computes next to nothing: its time is the overhead.
            floor = floor or seconds[0]
            times.append(seconds)
            study.point("widths", hidden, *seconds, min(100.0, 100 * (floor / seconds[0])))
        about = f"of the {operations} operations at width {WIDTHS[0]}: launch and Python"
        study.figure("overhead_per_operation", floor / operations, "s", about)
        if on_cpu:
            study.absent("crossover", "this run is on the CPU: no GPU is timed")
            study.mark("widths", f"at width {WIDTHS[0]} nearly all of the time is overhead")
            return
        gpu, cpu = [pair[0] for pair in times], [pair[1] for pair in times]
        crossing = estimates.crossing(WIDTHS, gpu, cpu)
        assert crossing is not None
        words = estimates.describe_crossing("the GPU", "the CPU", crossing, "width")
        study.mark("widths", words)
        study.figure("crossover", words)

    return Case(timed, clock="wall", item=batch, study=study)


LOOPED = (16, 256)
"""Sizes in MiB on the CPU and on a GPU, too large for the cache."""


@workload(
    group="first_steps",
    title="data kept on the device against copies in the loop",
    about="A loop of matrix-vector products over the same data. The data is kept on the device "
    "and one number comes back at the end; the other ways copy the data in every step, and the "
    "result back as well. On the CPU, where .to would do nothing, a copy within host memory stands "
    "for each transfer.",
    look_for="How many times slower the loop gets by copying. A GPU reads its own memory tens "
    "of times faster than the data comes over PCI Express. The rate is of the data worked "
    "through.",
    question="The data does not change. What does a .to(device) inside the loop cost on a GPU?",
    choices=(
        "nothing: torch knows that the data is the same",
        "one launch in each step",
        "a copy of all the data in each step",
    ),
    right_choice=3,
    answer="A copy of all the data in each step. PCI Express is tens of times slower than the "
    "GPU's own memory, so the copy takes most of the time: move the data once, before the loop.",
)
def copies_in_loop(
    on: Place,
    mib: Annotated[int, whole(1, 16_384, "size of the data, MiB", auto=by_device(LOOPED))] = 0,
    steps: Annotated[int, whole(1, 1000, "steps in one call")] = 5,
) -> Case:
    import torch

    from workloads.scripts.copies_in_loop import copied, kept

    sizes = on.sizes(mib=(mib, LOOPED))
    mib = sizes["mib"]
    rows, columns = mib * 256, 1024
    # The data and a copy; a column of the sums, of a product, and of both added up.
    vectors = 4 * (4 * rows + columns)
    size = mib * 2**20
    on.require(2 * size + vectors, f"{mib} MiB of data and a copy", host=size + vectors)
    host = on.host_randn(rows, columns)
    on_device = host.to(on.device)
    vector = on.randn(columns)
    timed = partial(kept, on_device, vector, steps)

    def copied_both_ways() -> float:
        total = torch.zeros(rows)
        for _ in range(steps):
            total = total + (host.to(on.device, copy=True) @ vector).to("cpu", copy=True)
        return total.sum().item()

    def study(study: Study) -> None:
        ways: dict[str, Callable[[], object]] = {
            "copied in, result out, every step": copied_both_ways,
            "copied in every step": partial(copied, host, vector, steps),
            "kept on the device": timed,
        }
        seen = steps * mib * 2**20
        study.variants("ways", f"{steps} steps", ways, per_call=(seen, "byte/s"))

    return Case(timed, clock="wall", byte=steps * mib * 2**20, chosen=sizes, study=study)
