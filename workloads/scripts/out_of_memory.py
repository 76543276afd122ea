"""Run out of memory, and go on: with less, or under no_grad."""

import torch


def step(size: int, numbers: int, device: torch.device) -> torch.Tensor:
    activations = torch.ones(numbers, device=device)
    result = torch.empty(size, dtype=torch.uint8, device=device)
    del activations
    return result


def step_or_less(size: int, less: int, numbers: int, device: torch.device) -> torch.Tensor:
    try:
        return step(size, numbers, device)
    except RuntimeError:  # torch.OutOfMemoryError is one; on the CPU it is a plain one
        pass  # go on outside: in here the exception still holds the step's tensors
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return step(less, numbers, device)


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
    result = step_or_less(2**52, 2**20, 2**24, device)
    print(f"It goes on with {result.nbytes >> 20} MiB. Ask for less: a smaller batch, and")
    print("torch.no_grad() where no backward pass follows, so that no activations are kept.")
