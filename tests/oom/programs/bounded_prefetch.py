"""Fill a bounded queue with batches on the GPU; it is full, then the step does not fit."""

import queue
import threading

import torch

ready: "queue.Queue[torch.Tensor]" = queue.Queue(maxsize=10)
filled = threading.Event()
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def load() -> None:
    for step in range(30):
        ready.put(torch.empty(131072 if step > 12 else 4096, 1024, device="cuda"))
        if step == 22:
            filled.set()


threading.Thread(target=load, daemon=True).start()


def train() -> None:
    for step in range(20):
        if step == 13:
            filled.wait(60)
        x = ready.get()
        (model(x) - x).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
