"""Allocate, del and empty_cache: what the memory of tensors, of torch and of the GPU do."""

import torch


def make_and_drop(sizes: list[int], device: torch.device) -> None:
    tensors = [torch.ones(size, device=device) for size in sizes]
    del tensors


def report(step: str) -> None:
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    free, total = torch.cuda.mem_get_info()  # of the whole device, with all other processes
    figures = (f"{figure / 2**20:8.0f}" for figure in (allocated, reserved, total - free))
    print(f"{step:28}{''.join(figures)}")


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    make_and_drop([2**25], device)
    if device.type == "cpu":
        print("This needs a CUDA GPU: on the CPU the C library caches memory, which torch ignores.")
        raise SystemExit(0)
    torch.cuda.empty_cache()
    print(f"{'MiB:':28}   torch  cached  device")
    report("at the start")
    large = torch.ones(2**25, device=device)
    report("allocate 128 MiB")
    del large
    report("del: torch keeps it cached")
    small = torch.ones(2**19, device=device)
    torch.cuda.empty_cache()
    report("2 MiB of it, empty_cache")
    del small
    torch.cuda.empty_cache()
    report("del, empty_cache")
    print(torch.cuda.memory_summary(abbreviated=True))
