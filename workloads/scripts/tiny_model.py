"""Run models of several widths: narrow ones wait for their launches."""

import torch
from torch.utils.benchmark import Timer


def forward(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.as_tensor(model(inputs))


def build(count: int, width: int, device: torch.device) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(count):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).to(device)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    for width in (4, 16, 64, 256, 1024):
        times = []
        for where in dict.fromkeys((torch.device("cpu"), device)):
            model = build(8, width, where)
            inputs = torch.randn(8, width, device=where)
            call = "forward(model, inputs)"
            timer = Timer(call, globals=globals(), num_threads=threads)
            seconds = timer.blocked_autorange().median
            times.append(f"{seconds * 1e6:8.1f} µs on {where}")
        print(f"width {width:4}: {', '.join(times)}")
    print("A time that does not grow with the width is of 16 launches.")
