"""Fragment the cache: half of it is free, in pieces too small for the next tensor."""

import torch


def one(size: int, device: torch.device) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def in_turns(pieces: int, size: int, device: torch.device) -> list[torch.Tensor]:
    pairs = [(one(size, device), one(size, device)) for _ in range(pieces)]
    return [stays for stays, _goes in pairs]


def stays_first(pieces: int, size: int, device: torch.device) -> list[torch.Tensor]:
    stays = [one(size, device) for _ in range(pieces)]
    goes = [one(size, device) for _ in range(pieces)]
    del goes
    return stays


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("This needs a CUDA GPU: the CPU's heap has no segments that torch could show.")
        raise SystemExit(0)
    size, device = 16 * 2**20, torch.device("cuda")
    for make in (in_turns, stays_first):
        torch.cuda.empty_cache()
        segment = one(32 * size, device)  # all later tensors are cut from this cached segment
        del segment
        kept = make(16, size, device)
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        large = one(4 * size, device)
        grown = torch.cuda.memory_reserved() - reserved
        print(f"{make.__name__}: {allocated >> 20} MiB allocated, {reserved >> 20} MiB reserved,")
        print(f"  and a tensor of 64 MiB takes {grown >> 20} MiB more from the device")
        del kept, large
    print("Create first what stays, or set PYTORCH_ALLOC_CONF=expandable_segments:True.")
