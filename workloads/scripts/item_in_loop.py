"""Read the loss in each step, or once: .item() waits for the GPU."""

import torch
from torch.utils.benchmark import Timer


def loss_of(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (inputs @ weights).relu().square().mean()


def item_at_end(
    inputs: torch.Tensor,
    weights: torch.Tensor,
    steps: int,
) -> float:
    total = torch.zeros((), device=inputs.device)
    for _ in range(steps):
        total += loss_of(inputs, weights)  # stays on the device, queued
    return total.item()


def item_each_step(
    inputs: torch.Tensor,
    weights: torch.Tensor,
    steps: int,
) -> float:
    total = 0.0
    for _ in range(steps):
        total += loss_of(inputs, weights).item()  # waits for queued work
    return total


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    inputs = torch.randn(64, 64, device=device)
    weights = torch.randn(64, 64, device=device)
    times = []
    for way in (item_each_step, item_at_end):
        call = "way(inputs, weights, 50)"
        timer = Timer(call, globals=globals(), num_threads=threads)
        times.append(timer.blocked_autorange(min_run_time=0.5).median)
        print(f"{way.__name__}: {times[-1] * 1e3:.2f} ms for 50 steps")
    more = (times[0] - times[1]) / 50
    print(f"Difference: {more * 1e6:+.1f} µs a step on {device}.")
    print("A CPU has no queue; that of a GPU runs empty.")
    print("print(loss) waits as .item() does.")
