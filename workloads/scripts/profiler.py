"""Profile training steps: which operators take the time, as a table and as a trace."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule


def record(step: Callable[[], object], steps: int, activities: list[ProfilerActivity]) -> Any:
    with profile(activities=activities, profile_memory=True) as recorded:
        for _ in range(steps):
            step()
        if ProfilerActivity.CUDA in activities:
            torch.cuda.synchronize()  # or kernels that still run would be missing
    return recorded


def step() -> None:
    optimizer.zero_grad()
    model(images).square().mean().backward()
    optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randn(32, 3, 32, 32, device=device)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA][: 2 if device.type == "cuda" else 1]
    sort_by, recorded = f"self_{device.type}_time_total", record(step, 3, activities)
    print(recorded.key_averages().table(sort_by=sort_by, row_limit=8))
    # In a long run: skip a step, warm up in one, record two, and write a trace for Perfetto.
    with profile(activities=activities, schedule=schedule(wait=1, warmup=1, active=2)) as traced:
        for _ in range(4):
            step()
            traced.step()
    traced.export_chrome_trace(f"{(folder := tempfile.mkdtemp())}/trace.json")
    print(f"Few rows hold most of the time. {folder}/trace.json opens in ui.perfetto.dev")
