"""The names of the catalogue's figures on the screen.

In stored results and JSON a figure has a key, such as ``too_fast``, that must not change. Here are
the words that people read; a key that needs no other words is not listed.
"""

from __future__ import annotations

import re

NAMES = {
    "best_speed_up": "best possible speed-up",
    "break_even_calls": "calls until it pays",
    "bytes_per_token": "memory traffic per token",
    "capture": "time to capture",
    "captures_refused": "refused in a capture",
    "cold_compile": "compile time, empty cache",
    "cold_over_warm": "time of a cold over a warm call",
    "compared_products": "products compared",
    "compile": "compile time",
    "cost_of_the_graph": "memory of the graph",
    "cuda_is_available": "CUDA available",
    "device_count": "CUDA devices",
    "device_of_the_fixed_result": "device of the result",
    "device_time": "time on the device",
    "entries_not_close": "entries that differ",
    "error_growth": "error grows by",
    "expected_speed_up": "expected speed-up",
    "fallback_selects": "device selected",
    "fusing_error": "error by fusing",
    "goes_on_with": "allocated after the failure",
    "gpu_bytes_of_left_model": "GPU memory of the unmoved model",
    "gpus": "GPUs",
    "gradient_bytes": "gradients",
    "hidden": "hidden by the overlap",
    "input_alone_moved": "with only the input moved",
    "kv_cache_per_token": "KV cache per token",
    "launch": "time of a launch",
    "launch_bound_up_to": "largest launch-bound n",
    "launch_s": "start of the ranks",
    "layout_speed_up": "speed-up by the layout",
    "left_after_recovery": "still held after recovery",
    "loss_at_end": "loss at the end",
    "mixtures_refused": "mixed devices refused",
    "model_to": "model.to(device) returned",
    "naive_flop_per_s": "naive rate",
    "naive_s": "naive time",
    "network": "all convolutions",
    "network_flop_per_s": "rate of all convolutions",
    "overtakes": "GPU overtakes at",
    "overtakes_with_copies": "GPU with copies overtakes at",
    "per_element": "time per element",
    "per_sample": "memory per sample",
    "picked": "chosen by torch",
    "pinned_by_the_traceback": "held by the traceback",
    "pool": "pool of the graph",
    "rate_limit": "limit of the rate",
    "read_cold": "read, cold cache",
    "read_hot": "read, page cache",
    "saved_per_step": "time saved per step",
    "slow_down": "slowdown",
    "speed_up": "speed-up",
    "speed_up_by_moving": "speed-up by moving",
    "states": "optimizer state",
    "steady_after": "clock steady after",
    "stored_share": "stored per rank",
    "tensor_to": "tensor.to(device) returned",
    "tensor_to_again": ".to(device) again returned",
    "to_again": "needless .to(device)",
    "to_device": "host to device",
    "to_host": "device to host",
    "too_fast": "naive timing too fast by",
    "too_large": "first batch too large",
    "traffic_ddp": "traffic with DDP",
    "traffic_fsdp": "traffic with FSDP",
    "wait_per_step": "waiting per step",
    "worth_it_after": "steps until it pays",
}
_BY_UNIT = {
    ("pinned", "byte"): "kept by a small tensor",
    ("pinned", "byte/s"): "from pinned memory",
}
"""Names of figures whose key means different things in two workloads."""
_SERIES = (
    ("first_over_later_", "first call over later, {}"),
    ("unseen_", "unseen sizes, {}"),
    ("seen_", "seen sizes, {}"),
    ("float16_underflow_", "float16 underflow, {}"),
    ("gradient_difference_", "gradient difference, {}"),
    ("kernels_", "kernels, {}"),
    ("latency_", "latency, {}"),
    ("loss_epoch_", "loss of epoch {}"),
)
"""Beginnings of keys whose rest says which."""


def name_figure(key: str, unit: str = "") -> str:
    """Return the words for a figure: those listed here, else its key as words.

    Args:
        key: of the figure.
        unit: of the figure; its letters at the end of the key are left out.
    """
    words = _BY_UNIT.get((key, unit)) or NAMES.get(key)
    if words:
        return words
    for start, pattern in _SERIES:
        if key.startswith(start):
            return pattern.format(key.removeprefix(start).replace("_", " "))
    return _as_words(key, unit)


def _as_words(key: str, unit: str) -> str:
    """Return the words of a user's key: ``copy_byte_per_s`` is "copy rate", ``wait_s`` "wait"."""
    stem = key
    if unit == "s":
        stem = key.removesuffix("_s")
    elif unit in ("byte", "bytes", "B"):
        stem = key.removesuffix("_bytes").removesuffix("_byte")
    elif unit.endswith("/s"):
        stem = re.sub(r"_((flop|bytes?|item)_)?per_s$", "_rate", key)
    return stem.replace("_", " ").strip() or key
