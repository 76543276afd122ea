"""The workloads. Importing this package declares them all, without torch.

Functions that prepare a workload import the modules that need torch: torch itself,
``declare.place``, ``measure.environment`` and ``shared.models``.
"""

# ruff: noqa: F401 (imported for what they declare)

from workloads.catalog.compute import (
    attention,
    ceiling,
    decode_products,
    operations,
    precisions,
    products,
)
from workloads.catalog.convolution import choice, layers, layouts
from workloads.catalog.language import generation
from workloads.catalog.memory import held, largest_batch
from workloads.catalog.multi_gpu import burn, collective_operations, collectives, devices, sharding
from workloads.catalog.pitfalls import cuda_graph, host_bound, measuring, wrong_device
from workloads.catalog.training import (
    activations,
    data_loading,
    memory,
    mixed_precision,
    optimizers,
    steps,
    tools,
)
from workloads.catalog.transfer import copies, rates, weights
from workloads.declare.workload import arrange

ORDER = (
    # health
    "transfer",
    "copy_sizes",
    "device_copy",
    "reductions",
    "matmul",
    "matmul_sweep",
    "linalg",
    "ceiling",
    "peer_copies",
    "burn",
    # flags
    "conv2d",
    "varying_shapes",
    "deterministic",
    "resnet50_layers",
    "conv_block",
    "tf32",
    "matmul_float8",
    "conv_layouts",
    "elementwise",
    "transformer_compile",
    "cuda_graphs",
    "attention",
    # training
    "cnn_training",
    "batch_scaling",
    "profiler",
    "data_loading",
    "overlap",
    "amp",
    "gradient_accumulation",
    "checkpointing",
    "activation_memory",
    "optimizer_step",
    # llm
    "llm_prefill",
    "llm_decode",
    "decode_gemm",
    "load_weights",
    # memory
    "staircase",
    "inference_modes",
    "fragmentation",
    "out_of_memory",
    "batch_until_oom",
    # multi_gpu
    "all_reduce",
    "collectives",
    "ddp_training",
    "fsdp_training",
    "data_parallel",
    # first_steps
    "device_list",
    "placement",
    "device_mismatch",
    "comparing_results",
    "naive_timing",
    "matmul_shapes",
    "python_loop",
    "copies_in_loop",
    "mlp_training",
    "mlp_evaluation",
    "item_in_loop",
    "model_on_cpu",
    "tiny_model",
)
"""The workloads in the order on the screen, group by group (``protocol/groups.py``)."""

arrange(ORDER)
