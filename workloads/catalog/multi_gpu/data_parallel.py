"""DataParallel: one process that splits each batch between its GPUs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    from workloads.declare.place import Place

TOLERANCE = 5e-3
"""Tolerance of DataParallel's output: batch sizes and kernels differ from one GPU's; maybe TF32."""


@workload(
    group="multi_gpu",
    title="training with DataParallel",
    about="torch.nn.DataParallel: one process splits each batch over the GPUs, copies the model to "
    "all of them in every step and gathers the results on the first. One line of code, but "
    "PyTorch recommends DistributedDataParallel even on a single machine.",
    look_for="The speed-up over one GPU: often below one, since each step copies the model and "
    "a single Python process launches the kernels of all GPUs: it has a thread for each, and they "
    "share the interpreter's lock. Compare it with ddp_training at the same batch per GPU.",
    devices=("cuda",),
    needs=("2 GPUs",),
)
def data_parallel(
    on: Place,
    batch: Annotated[int, whole(1, 65_536, "samples, divided among the GPUs")] = 2048,
    width: Annotated[int, whole(1, 32_768, "of the three hidden layers")] = 2048,
) -> Case:
    import torch

    from workloads.catalog.shared.models import perceptron
    from workloads.scripts.data_parallel import train_step

    size = 4 * (3 * (3 * width * width + 2 * width) + 12 * batch * width)
    on.require(size, f"a model of width {width} and a batch of {batch}")
    single = perceptron(on, width)
    # The first of device_ids must be where the parameters are.
    others = [index for index in range(torch.cuda.device_count()) if index != on.device.index]
    gpus = [on.device.index or 0, *others]
    model = torch.nn.DataParallel(single, device_ids=gpus)
    inputs, targets = on.randn(batch, width), on.randn(batch, 1)
    optimizer = torch.optim.SGD(single.parameters(), lr=1e-3)
    timed = functools.partial(train_step, model, optimizer, inputs, targets)

    def check() -> Check:
        with torch.no_grad():
            expected, replicated = single(inputs), model(inputs)
        error = float((replicated - expected).abs().max() / expected.abs().max())
        return Check(error <= TOLERANCE, error, TOLERANCE, "the output of one GPU")

    def study(study: Study) -> None:
        study.figure("gpus", float(1 + len(others)), "", "among which the batch is divided")
        calls = {
            "one GPU": functools.partial(train_step, single, optimizer, inputs, targets),
            "DataParallel": timed,
        }
        study.variants(
            "ways", "the same batch on one GPU and on all", calls, per_call=(batch, "samples/s")
        )

    devices = tuple(f"cuda:{index}" for index in gpus)
    return Case(timed, clock="wall", item=batch, devices=devices, check=check, study=study)
