"""Keep exceptions for a report: their tracebacks keep the frames, the frames the tensors."""

import torch

errors: list[Exception] = []


def process(step: int) -> None:
    batch = torch.randn(8192, 1024, device="cuda")  # asks
    if batch.dim() == 2:
        raise ValueError(f"bad batch {step}")


for step in range(500):
    try:
        process(step)
    except ValueError as error:
        errors.append(error)  # leaks
