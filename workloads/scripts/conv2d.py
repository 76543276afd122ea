"""Run a convolution forward and backward, with and without cuDNN's search (benchmark)."""

from time import perf_counter

import torch
from torch.utils.benchmark import Timer


def forward(conv: torch.nn.Conv2d, image: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = conv(image)
    return result


def forward_backward(
    conv: torch.nn.Conv2d, image: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    result = forward(conv, image)
    conv.zero_grad(set_to_none=True)
    result.backward(gradient)
    return result


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    conv = torch.nn.Conv2d(3, 64, kernel_size=3, padding=1).to(device)
    for benchmark in (False, True) if device.type == "cuda" else (False,):
        torch.backends.cudnn.benchmark = benchmark
        image = torch.randn(8, 3, 224 + benchmark, 224, device=device)  # a shape not seen before
        start = perf_counter()
        gradient = torch.ones_like(forward(conv, image))
        if device.type == "cuda":
            torch.cuda.synchronize()
        library = f"cudnn.benchmark={benchmark}" if device.type == "cuda" else "On the CPU"
        print(f"{library}: first call {(perf_counter() - start) * 1e3:.1f} ms")
        for call in ("forward(conv, image)", "forward_backward(conv, image, gradient)"):
            timer = Timer(call, globals=globals(), num_threads=torch.get_num_threads())
            milliseconds = timer.blocked_autorange(min_run_time=0.3).median * 1e3
            print(f"  {call:40} {milliseconds:8.2f} ms on {device}")
    print("With benchmark, the first call of a shape tries algorithms: it pays if shapes repeat.")
