"""Compute attention with each of torch's backends, and learn which of them can run."""

import warnings

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Tensor:
    grouped = key.size(1) < query.size(1)  # several heads share keys and values (GQA)
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=seen, is_causal=causal, enable_gqa=grouped
    )


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shape = (2, 8, 1024, 64)  # sequences, heads, positions, width of a head
    query, key, value = (torch.randn(shape, device=device, dtype=dtype) for _ in range(3))
    warnings.simplefilter("ignore")  # torch warns why a backend cannot run
    for backend in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
        timer = Timer(
            "attend(query, key, value, None, True)",
            globals=globals(),
            num_threads=torch.get_num_threads(),
        )
        try:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                seconds = timer.blocked_autorange(min_run_time=0.2).median
        except RuntimeError as error:
            print(f"{backend:20} cannot run: {str(error).splitlines()[0]}")
        else:
            print(f"{backend:20} {seconds * 1e3:.3f} ms on {device}")
