"""Keep the data on the device, or copy it there in every step of a loop."""

import torch
from torch.utils.benchmark import Timer


def kept(there: torch.Tensor, vector: torch.Tensor, steps: int) -> float:
    total = torch.zeros(len(there), device=there.device)
    for _ in range(steps):
        total = total + there @ vector  # everything is on the device
    return total.sum().item()  # one number comes back, once


def copied(host: torch.Tensor, vector: torch.Tensor, steps: int) -> float:
    total = torch.zeros(len(host), device=vector.device)
    for _ in range(steps):
        # The same data again and again.
        total = total + host.to(vector.device, copy=True) @ vector
    return total.sum().item()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads, steps = torch.get_num_threads(), 5
    host = torch.randn(16_384, 1024)
    there = host.to(device)
    vector = torch.randn(1024, device=device)

    def seconds(statement: str) -> float:
        timer = Timer(statement, globals=globals(), num_threads=threads)
        return timer.blocked_autorange(min_run_time=0.5).median

    once = seconds("kept(there, vector, steps)")
    always = seconds("copied(host, vector, steps)")
    print(f"{steps} products with {host.nbytes >> 20} MiB on {device}:")
    print(f"data kept on the device  {once * 1e3:8.2f} ms")
    print(f"copied in every step     {always * 1e3:8.2f} ms")
    print(f"{always / once:.1f} times as long")
    if device.type == "cpu":
        print("Without a GPU, a copy in host memory stands for it.")
