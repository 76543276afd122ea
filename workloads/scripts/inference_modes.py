"""Run a model with gradients, under no_grad and under inference_mode: memory and time."""

import torch
from torch.utils.benchmark import Timer


def with_grad(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(inputs))  # every activation is kept for a backward pass


@torch.no_grad()
def without_grad(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(inputs))


@torch.inference_mode()
def inference(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(inputs))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(12)]
    model, inputs = torch.nn.Sequential(*layers).to(device), torch.randn(512, 512, device=device)
    for way in (with_grad, without_grad, inference):
        timer = Timer("way(model, inputs)", globals=globals(), num_threads=threads)
        seconds = timer.timeit(10).median
        print(f"{way.__name__}: {seconds * 1e3:.2f} ms, {way(model, inputs).requires_grad=}")
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            way(model, inputs)
            print(f"  at the peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
    print("Where an evaluation runs out of memory, torch.no_grad() may be all that it lacks.")
