"""Run out of memory, and go on: with less, or under no_grad."""

import torch


def step(size: int, numbers: int, device: torch.device) -> torch.Tensor:
    activations = torch.ones(numbers, device=device)
    result = torch.empty(size, dtype=torch.uint8, device=device)
    del activations
    return result


def attempt(size: int, numbers: int, device: torch.device) -> torch.Tensor | None:
    try:
        return step(size, numbers, device)
    except RuntimeError:  # torch.OutOfMemoryError on a GPU, a plain one on the CPU
        return None  # only outside of here the exception no longer holds the step's tensors


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kept = None
    try:
        step(2**52, 2**24, device)  # 4 PiB, which no machine has
    except RuntimeError as error:
        kept = error
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    if device.type == "cuda":
        print(f"While the exception is kept: {torch.cuda.memory_allocated() >> 20} MiB allocated")
        kept = None
        print(f"Once it is let go: {torch.cuda.memory_allocated() >> 20} MiB allocated")
        torch.cuda.empty_cache()
    sizes = [2**size for size in (52, 48, 24, 20)]
    granted = next(size for size in sizes if attempt(size, 2**24, device) is not None)
    print(f"It goes on with {granted >> 20} MiB. Ask for less: a smaller batch, and")
    print("torch.no_grad() where no backward pass follows, so that no activations are kept.")
