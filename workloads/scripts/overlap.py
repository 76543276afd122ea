"""Copy the next chunk of data on a second stream while the GPU multiplies this one."""

import torch
from torch import Tensor
from torch.cuda import Stream
from torch.utils.benchmark import Timer


def multiply_chunks(
    host: list[Tensor], buffers: list[Tensor], weight: Tensor, out: Tensor, copying: Stream
) -> Tensor:
    computing = torch.cuda.current_stream(weight.device)
    read = [computing.record_event(), computing.record_event()]
    for index, chunk in enumerate(host):
        place = index % 2
        with torch.cuda.stream(copying):
            copying.wait_event(read[place])  # until the buffer is no longer read
            buffers[place].copy_(chunk, non_blocking=True)
            arrived = copying.record_event()
        computing.wait_event(arrived)
        torch.matmul(buffers[place], weight, out=out)
        read[place] = computing.record_event()
    return out


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("This needs a CUDA GPU: the CPU has no streams.")
        raise SystemExit
    host = [torch.randn(2048, 4096, pin_memory=True) for _ in range(8)]
    buffers = [torch.empty(2048, 4096, device="cuda") for _ in range(2)]
    weight = torch.randn(4096, 4096, device="cuda")
    out = torch.empty(2048, 4096, device="cuda")
    streams = {"one stream": torch.cuda.current_stream(), "two streams": Stream()}
    for name in streams:
        call = "multiply_chunks(host, buffers, weight, out, streams[name])"
        seconds = Timer(call, globals=globals()).blocked_autorange().median
        print(f"8 chunks of 32 MiB, {name}: {seconds * 1e3:.2f} ms")
    print("Two streams take as long as the longer of copying and multiplying, one as both.")
