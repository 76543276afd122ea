"""Let float32 products round their inputs: how much faster, and how much less exact?"""

import torch
from torch.utils.benchmark import Timer


def multiply(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    # "highest" rounds nothing. On a GPU "high" allows TF32, as does torch 2.9's
    # torch.backends.cuda.matmul.fp32_precision = "tf32"; on a CPU "medium" allows bfloat16.
    torch.set_float32_matmul_precision(precision)
    return a @ b


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 4096 if device.type == "cuda" else 1024
    rounded = "high" if device.type == "cuda" else "medium"
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    exact = a[:64].double() @ b.double()
    for precision in ("highest", rounded):
        timer = Timer(
            "multiply(a, b, precision)", globals=globals(), num_threads=torch.get_num_threads()
        )
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        difference = (multiply(a, b, precision)[:64].double() - exact).abs().max()
        error = (difference / exact.abs().max()).item()
        print(f"{precision:8} {seconds * 1e3:8.3f} ms, error {error:.1e}, on {device}")
    print("Equal errors mean that nothing was rounded: TF32 needs compute capability 8.0,")
    print("rounding on a CPU needs its bfloat16 instructions.")
