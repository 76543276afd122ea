"""What a first step shows on a GPU, for a lesson on a machine without one."""

from __future__ import annotations

ON_A_GPU = {
    "device_list": "the list names each GPU with its compute capability and memory.",
    "placement": "model.to(device) moves the parameters, so that 'after' is cuda:0, and "
    "data.to(device) returns a new tensor. Here all of them stay on the CPU.",
    "device_mismatch": "torch's message names cuda:0 and cpu. Here the meta device, which has "
    "shapes and no data, stands in for the GPU, so the messages name meta.",
    "comparing_results": "its result is compared with the CPU's. Here the second result comes from "
    "the CPU too, which adds the same products in another order.",
    "naive_timing": "a call returns before its work is done, so the naive time is far too short. "
    "Here the work is done when the call returns, and the times agree.",
    "copies_in_loop": "each copy crosses the bus between host and GPU. Here a copy within host "
    "memory stands for it.",
    "item_in_loop": "each .item() waits for all work in the GPU's queue. Here there is no queue, "
    "and both ways take about as long.",
    "model_on_cpu": "the step there is timed beside that of the model left on the CPU.",
    "tiny_model": "its curve stands beside the CPU's and starts higher: narrow layers are faster "
    "on the CPU.",
}
"""What would differ, by name of the step; steps that differ only in their times have none."""


def describe_on_a_gpu(name: str) -> str:
    """Return what a step would show on a GPU; empty if only its times would differ."""
    words = ON_A_GPU.get(name, "")
    return f"With a GPU: {words}" if words else ""
