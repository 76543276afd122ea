"""Training and evaluation of a small perceptron."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


SAMPLES, FEATURES = 1024, 16


def _data(on: Place) -> torch.utils.data.TensorDataset:
    import torch

    return torch.utils.data.TensorDataset(
        on.host_randn(SAMPLES, FEATURES), on.host_randn(SAMPLES, 1)
    )


def _model(on: Place, hidden: int) -> torch.nn.Module:
    import torch

    from workloads.declare.place import SEED

    torch.manual_seed(SEED)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1)
    ).to(on.device)


@workload(
    group="first_steps",
    title="training loop of a small regression model",
    about=f"{SAMPLES} samples of {FEATURES} features through a two-layer perceptron: DataLoader, "
    "copy of each batch to the device, forward, mean squared error, backward, Adam.",
    look_for="A model this small is often no faster on a GPU: each step launches dozens of tiny "
    "kernels and waits for Python. Raise the hidden width and the batch to see the GPU overtake.",
    question="Why can a GPU be slower than the CPU at a model this small?",
    choices=(
        "its weights cross the bus in each step",
        "launching a kernel takes longer than running it",
        "Adam runs on the CPU, and the GPU waits",
    ),
    right_choice=2,
    answer="Each step launches dozens of tiny kernels, and launching one takes longer than running "
    "it. A wider layer or a larger batch gives each launch more work.",
)
def mlp_training(
    on: Place,
    batch: Annotated[int, whole(1, SAMPLES, "samples in a batch")] = 64,
    hidden: Annotated[int, whole(1, 65_536, "width of the hidden layer")] = 64,
    epochs: Annotated[int, whole(1, 1000, "passes over the samples in one call")] = 3,
) -> Case:
    import torch

    from workloads.scripts.mlp_training import train_epoch

    # Weights, gradients, Adam's two moments and what its step makes of one; a layer's result before
    # and after ReLU and their gradients; a batch, its targets, the result and the loss.
    parameters = hidden * (FEATURES + 2) + 1
    activations = batch * (4 * hidden + FEATURES + 6)
    on.require(4 * (6 * parameters + activations), "the model and Adam's state")
    loader = torch.utils.data.DataLoader(_data(on), batch_size=batch, shuffle=True)
    model = _model(on, hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    losses: list[torch.Tensor] = []

    def timed() -> object:
        losses.extend(train_epoch(model, loader, optimizer, on.device) for _ in range(epochs))
        return losses[-1]

    def study(study: Study) -> None:
        for index, loss in enumerate(losses[:epochs], start=1):
            study.figure(f"loss_epoch_{index}", float(loss), "", "of the epoch's last batch")
        study.figure("loss_at_end", float(losses[-1]), "", "after all timed calls")

    return Case(timed, clock="wall", item=epochs * SAMPLES, study=study)


@workload(
    group="first_steps",
    title="evaluation of the same model without gradients",
    about="One pass over the samples under torch.no_grad(), summing the absolute error on the "
    "host with .item() after each batch, as evaluation loops do.",
    look_for="No graph is kept, so it needs less time and memory than a training pass; the "
    ".item() of each batch waits for the device.",
    question="What does torch.no_grad() save in an evaluation, and what does model.eval() do?",
    choices=(
        "no_grad() saves memory; eval() switches layers",
        "eval() saves memory; no_grad() switches layers",
        "both save memory, so one of them is enough",
    ),
    right_choice=1,
    answer="no_grad() records no graph: no activations are stored for a backward pass, so less "
    "memory and time are needed. model.eval() saves neither: it switches layers such as dropout "
    "and batch norm to evaluation. An evaluation wants both.",
)
def mlp_evaluation(
    on: Place,
    batch: Annotated[int, whole(1, SAMPLES, "samples in a batch")] = 64,
    hidden: Annotated[int, whole(1, 65_536, "width of the hidden layer")] = 64,
) -> Case:
    import torch

    from workloads.scripts.mlp_evaluation import evaluate

    parameters = hidden * (FEATURES + 2) + 1
    on.require(4 * (parameters + batch * (2 * hidden + FEATURES + 4)), "the model")
    loader = torch.utils.data.DataLoader(_data(on), batch_size=batch)
    model = _model(on, hidden)

    def timed() -> float:
        return evaluate(model, loader, on.device)

    def study(study: Study) -> None:
        error = timed()
        study.figure("mean_absolute_error", error, "", "of the untrained model over all samples")

    return Case(timed, clock="wall", item=SAMPLES, study=study)
