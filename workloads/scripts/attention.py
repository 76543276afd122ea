"""Compute attention with each of torch's backends, and learn why some cannot run."""

import warnings

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Tensor:
    grouped = key.size(1) < query.size(1)  # several heads share keys and values (GQA)
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=seen, is_causal=causal, enable_gqa=grouped
    )


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shape = (2, 8, 1024, 64)  # sequences, heads, positions, width of a head
    query, key, value = (torch.randn(shape, device=device, dtype=dtype) for _ in range(3))
    for backend in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
        call = "attend(query, key, value, None, True)"
        timer = Timer(call, globals=globals(), num_threads=torch.get_num_threads())
        with (
            warnings.catch_warnings(record=True) as reasons,  # torch warns why one cannot run
            sdpa_kernel(getattr(SDPBackend, backend)),
        ):
            warnings.simplefilter("always")
            try:
                seconds = timer.blocked_autorange(min_run_time=0.2).median
                print(f"{backend:19} {seconds * 1e3:.3f} ms, {dtype} on {device}")
            except RuntimeError as error:
                why = [str(reason.message).split(" (Triggered")[0] for reason in reasons]
                print(f"{backend:19} cannot run:", *why or str(error).split(".")[:1])
    print(
        "MATH writes the scores of all pairs of positions to memory; the others keep them on chip."
    )
