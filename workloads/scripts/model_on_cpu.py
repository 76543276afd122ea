"""Forget model.to(device): it trains on the CPU, and nothing says so."""

import torch
from torch.utils.benchmark import Timer


def build(inputs: int, width: int, device: torch.device) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for features in (inputs, width):
        layers += [torch.nn.Linear(features, width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    return model.to(device)  # the line that is forgotten


def train_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *batch: torch.Tensor,
) -> torch.Tensor:
    inputs, targets = batch
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    inputs = torch.randn(128, 32)
    for where in dict.fromkeys((torch.device("cpu"), device)):
        model = build(32, 256, where)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        data = inputs.to(where), (inputs.sum(1, keepdim=True) + 1).to(where)
        losses = [train_step(model, optimizer, *data) for _ in range(40)]
        call = "train_step(model, optimizer, *data)"
        timer = Timer(call, globals=globals(), num_threads=threads)
        seconds = timer.timeit(50).median
        place = next(model.parameters()).device
        print(f"parameters on {place}: {seconds * 1e3:.2f} ms a step")
        print(f"  the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}")
    print("The loss does not tell. next(model.parameters()).device does.")
