"""Hand results to a thread that is slower than what produces them."""

import queue
import threading

import torch

results: "queue.Queue[torch.Tensor]" = queue.Queue()
done = threading.Event()


def write() -> None:
    results.get().cpu()
    done.wait()


threading.Thread(target=write, daemon=True).start()
model = torch.nn.Linear(1024, 1024).cuda().requires_grad_(False)
for _ in range(500):
    results.put(model(torch.randn(8192, 1024, device="cuda")))  # asks leaks
