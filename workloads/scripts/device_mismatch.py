"""Use tensors of two devices in one operation: torch's error, and the fix."""

import torch
from torch.utils.benchmark import Timer


def move_and_apply(
    model: torch.nn.Module, inputs: torch.Tensor, device: torch.device
) -> torch.Tensor:
    moved = inputs.to(device)  # the fix: beside the weights
    return torch.as_tensor(model(moved))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    other = torch.device("cpu" if device.type == "cuda" else "meta")  # meta: shapes without data
    model = torch.nn.Linear(512, 512).to(device)
    inputs = torch.randn(256, 512, device=other)
    try:
        model(inputs)
    except RuntimeError as error:
        print(f"model on {device}, inputs on {other}: RuntimeError: {error}")
    result = torch.tensor(2.0) * torch.ones(3, device=device)
    print(f"A CPU tensor of no dimensions is allowed: times a tensor on {result.device}.")
    on_host = torch.randn(256, 512)
    print(f"With .to(device) the result is on {move_and_apply(model, on_host, device).device}.")
    timer = Timer("move_and_apply(model, on_host, device)", globals=globals(), num_threads=threads)
    moved_once = on_host.to(device)
    timer = Timer("model(moved_once)", globals=globals(), num_threads=threads)
    once = timer.blocked_autorange().median
    each = timer.blocked_autorange().median
    print(f"Moved in each call: {each * 1e6:.0f} µs; moved once before: {once * 1e6:.0f} µs")
