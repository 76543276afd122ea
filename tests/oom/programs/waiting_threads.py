"""Start threads that never end; each keeps its batch, which is small beside the device."""

import sys
import threading

import torch

done = threading.Event()


def compute(computed: threading.Event) -> None:
    batch = torch.randn(4096, 1024, device="cuda")  # asks
    total = float(batch.sum())  # asks
    computed.set()
    done.wait()
    print(total)


for _ in range(600):
    computed = threading.Event()
    thread = threading.Thread(target=compute, args=(computed,), daemon=True)
    thread.start()
    while not computed.wait(0.05):
        if not thread.is_alive():
            sys.exit("a thread has failed")
