"""Mix two devices in one operation: torch's error, and the fix."""

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
    # Without a GPU, the meta device, which has shapes and no data.
    other = torch.device("cpu" if device.type == "cuda" else "meta")
    model = torch.nn.Linear(512, 512).to(device)
    inputs = torch.randn(256, 512, device=other)
    try:
        model(inputs)
    except RuntimeError as error:
        print(f"model on {device}, inputs on {other}: {error}")
    result = torch.tensor(2.0) * torch.ones(3, device=device)
    print(f"A CPU number times a tensor is allowed, on {result.device}.")
    on_host = torch.randn(256, 512)
    result = move_and_apply(model, on_host, device)
    print(f"With .to(device) the result is on {result.device}.")
    moved_once = on_host.to(device)
    each_time = "move_and_apply(model, on_host, device)"
    for call in each_time, "model(moved_once)":
        timer = Timer(call, globals=globals(), num_threads=threads)
        print(f"{call}: {timer.blocked_autorange().median * 1e6:.0f} µs")
