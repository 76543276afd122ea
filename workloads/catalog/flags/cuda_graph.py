"""CUDA graphs: record the launches of a training step once, and replay them with one call."""

from __future__ import annotations

import functools
import math
import time
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.flags.captures import REFUSED, TRIES, outcomes
from workloads.catalog.shared.tools import NO_DEVICE_ROWS, kernels_of
from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

LAYERS = 8
WIDTHS = (64, 256, 1024, 2048)
WARM_UPS = 3
"""Steps on the capture's stream beforehand, as torch's notes on CUDA graphs require."""
CHECKED_STEPS = 5
WORKSPACES = 2 * 32 * 2**20
"""Bytes of cuBLAS's workspaces on the capture's stream, for this thread and for autograd's: at
most 32 MiB each by default (torch: ``CUDABlas.cpp``)."""
RATE = 0.1
"""The learning rate."""
OF_THE_UPDATE = 1e-2
"""Tolerance, as a share of the steps' weight change: rounding of float32 and TF32 stays below it;
a replay that omits a kernel, or repeats an old gradient, does not."""


class Step:
    """A training step whose data, weights and results keep their addresses.

    Args:
        on: a CUDA device.
        width: width of all layers.
        batch: number of samples.
    """

    def __init__(self, on: Place, width: int, batch: int) -> None:
        import torch

        from workloads.declare.place import SEED

        torch.manual_seed(SEED)
        layers: list[torch.nn.Module] = []
        for _ in range(LAYERS):
            layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
        self._model = torch.nn.Sequential(*layers[:-1]).to(on.device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=RATE)
        self._inputs, self._targets = on.randn(batch, width), on.randn(batch, width)
        self._device = on.device

    def launch(self) -> None:
        """Take a step, kernel by kernel."""
        from workloads.scripts.cuda_graphs import launch

        launch(self._model, self._optimizer, self._inputs, self._targets)

    def capture(self) -> torch.cuda.CUDAGraph:
        """Take some steps, then record one for replays."""
        from workloads.scripts.cuda_graphs import capture

        return capture(self.launch, capture_stream(self._device), WARM_UPS)

    def weights(self) -> list[torch.Tensor]:
        """Return copies of the current weights."""
        return [weight.detach().clone() for weight in self._model.parameters()]

    def set_weights(self, weights: list[torch.Tensor]) -> None:
        """Copy weights into the step's own."""
        import torch

        with torch.no_grad():
            for weight, value in zip(self._model.parameters(), weights, strict=True):
                weight.copy_(value)


@functools.cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the single stream for all captures: cuBLAS keeps a workspace per stream."""
    import torch

    return torch.cuda.Stream(device)


@workload(
    group="flags",
    title="CUDA graph: replay a step instead of launching it",
    about=f"A training step of {LAYERS} narrow linear layers is some dozens of short kernels: "
    "forward, backward and SGD. Each launch costs the CPU some microseconds in Python, in torch "
    "and in the driver, and the GPU waits for it. torch.cuda.graph records the launches of one "
    "step (the capture); graph.replay() has the driver launch them all by one call. Timed is the "
    "replay.",
    look_for="The time per step of both, and the chart: the replay gains most where the layers are "
    "narrow, and little once the kernels take longer than their launches. A replay repeats the "
    "kernels, the addresses and the Python numbers of the capture: new data has to be copied into "
    "the tensors that were captured, as the table of changes shows. The last table says what a "
    "capture refuses, in torch's words, and what to write instead.",
    devices=("cuda",),
)
def cuda_graphs(
    on: Place,
    width: Annotated[int, whole(1, 16_384, "width of the layers")] = 64,
    batch: Annotated[int, whole(1, 65_536, "samples")] = 32,
) -> Case:
    # The step that is timed, with copies of its weights for the check, of the start and after
    # either way; the widest of the study.
    most = (_bytes(width, batch, copies=3), _bytes(max(WIDTHS), batch, copies=0))
    purpose = "the step that is timed and the widest of the others"
    on.require(sum(most) + WORKSPACES, purpose)
    step = Step(on, width, batch)
    start = step.weights()
    began = time.perf_counter()
    graph = step.capture()
    capture_s = time.perf_counter() - began

    def check() -> Check:
        step.set_weights(start)
        for _ in range(CHECKED_STEPS):
            step.launch()
        launched = step.weights()
        step.set_weights(start)
        for _ in range(CHECKED_STEPS):
            graph.replay()
        return same_update(start, launched, step.weights())

    def study(study: Study) -> None:
        ways = {"launched": step.launch, "replayed": graph.replay}
        pair = study.variants(
            "ways", "one training step", ways, per_call=(batch, "samples/s"), clock="wall"
        )
        saved = pair[0].median_s - pair[1].median_s
        study.figure("saved_per_step", saved, "s", "less time per step with the replay")
        _launches(study, on, step)
        study.figure("capture", capture_s, "s", f"{WARM_UPS} steps before it among it")
        about = "steps after which the capture has paid for itself"
        if saved > 0:
            study.figure("worth_it_after", float(math.ceil(capture_s / saved)), "", about)
        else:
            study.absent("worth_it_after", "the replay is not faster here", "", about)
        _pool(study, graph)
        _widths(study, on, batch)
        _frozen(study, on)
        _show_refused(study, on)

    return Case(
        graph.replay, clock="wall", item=batch, check=check, study=study, cleanup=graph.reset
    )


def _bytes(width: int, batch: int, copies: int) -> int:
    """Return the bytes of the weights, both ways' gradients, the copies and the activations.

    Activations include each layer's results before and after ReLU, the data, and two temporary
    gradients.
    """
    weights = LAYERS * width * (width + 1)
    return 4 * ((3 + copies) * weights + (2 * LAYERS + 4) * batch * width)


def same_update(
    start: list[torch.Tensor], launched: list[torch.Tensor], replayed: list[torch.Tensor]
) -> Check:
    """Check that both ways changed the weights alike; a replay without effect has an error of 1."""
    from workloads.declare.place import relative

    def furthest(first: list[torch.Tensor], other: list[torch.Tensor]) -> float:
        return max(float((a - b).abs().max()) for a, b in zip(first, other, strict=True))

    reference_name = f"what {CHECKED_STEPS} launched steps change the weights by"
    return relative(
        furthest(launched, replayed), furthest(launched, start), OF_THE_UPDATE, reference_name
    )


def _launches(study: Study, on: Place, step: Step) -> None:
    count = sum(row.calls for row in kernels_of(step.launch, on))
    abouts = {
        "launches_per_step": "kernels, copies and fills of a launched step, by the profiler",
        "launches_saved": "per step: the replay is one call",
    }
    for (name, about), value in zip(abouts.items(), (count, count - 1), strict=True):
        if count:
            study.figure(name, float(value), "", about)
        else:
            study.absent(name, NO_DEVICE_ROWS, "", about)


def _pool(study: Study, graph: torch.cuda.CUDAGraph) -> None:
    import torch

    segments = torch.cuda.memory_snapshot()
    size = sum(
        segment["total_size"]
        for segment in segments
        if tuple(segment.get("segment_pool_id", ())) == tuple(graph.pool())
    )
    about = "reserved by the graph's own pool, which nothing else may use while the graph lives"
    if size:
        study.figure("pool", float(size), "byte", about)
    else:
        study.absent("pool", "the allocator names no segment of this pool", "byte", about)


def _widths(study: Study, on: Place, batch: int) -> None:
    study.chart(
        "widths", "time per step over width", "width",
        ("launched", "s"), ("replayed", "s"), ("speed-up", "x"),
    )  # fmt: skip
    gains: dict[int, float] = {}
    for width in WIDTHS:
        step = Step(on, width, batch)
        graph = step.capture()
        try:
            launched, replayed = (study.time(call, "wall") for call in (step.launch, graph.replay))
        finally:
            graph.reset()
        gains[width] = launched / replayed
        study.point("widths", width, launched, replayed, gains[width])
    first, last = WIDTHS[0], WIDTHS[-1]
    study.mark(
        "widths",
        f"the replay is {gains[first]:.1f} times as fast at width {first}, {gains[last]:.1f} times "
        f"at {last}",
    )


def _frozen(study: Study, on: Place) -> None:
    """Add a table of a replay's results after each change; correct numbers need a real GPU."""
    import torch

    x = torch.ones(1, device=on.device)
    factor = 2.0
    x.mul(factor)  # the first use loads the kernel, before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=capture_stream(on.device)):
        y = x * factor

    def replayed() -> str:
        graph.replay()
        return f"{float(y.item()):g}"

    study.table(
        "changes", "y = x * factor, captured with x = 1 and factor = 2",
        "then changed", "the replay gives", "launched it is",
    )  # fmt: skip
    study.row("changes", "factor = 3.0 (a Python number)", replayed(), "3")
    study.row("changes", "x = torch.tensor([5.0]) (another tensor)", replayed(), "10")
    x.copy_(torch.tensor([5.0]))
    study.row("changes", "x.copy_(torch.tensor([5.0]))", replayed(), "10")
    graph.reset()


def _show_refused(study: Study, on: Place) -> None:
    study.table(
        "captures", "tried in a capture",
        "in the captured code", "outcome", "instead, or what it does",
    )  # fmt: skip
    words = []
    for outcome in outcomes(on.device, study.check_cancelled):
        words.append(outcome.word)
        study.row("captures", outcome.name, outcome.word, TRIES[outcome.name].instead)
        if outcome.reason:
            study.log_line(f"{outcome.name} -> {outcome.reason}")
    refused = float(words.count(REFUSED))
    study.figure("captures_refused", refused, "", f"of {len(words)} things tried")
