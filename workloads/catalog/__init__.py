"""The workloads. Importing this package declares them all, without torch.

Functions that prepare a workload import the modules that need torch: torch itself,
``declare.place``, ``measure.environment`` and ``shared.models``.
"""

# ruff: noqa: F401 (imported for what they declare)

from workloads.catalog.first_steps import (
    host_bound,
    matmul_shapes,
    measuring,
    mlp,
    placement,
    wrong_device,
)
from workloads.catalog.flags import (
    attention,
    compiled,
    convolution_choice,
    convolution_layers,
    convolution_layouts,
    cuda_graph,
    precisions,
)
from workloads.catalog.health import burn, ceiling, copies, operations, products
from workloads.catalog.llm import decode_products, generation, weights
from workloads.catalog.memory import allocations, largest_batch
from workloads.catalog.multi_gpu import collectives, parallel_training
from workloads.catalog.training import (
    activations,
    cnn,
    data_loading,
    memory,
    mixed_precision,
    optimizers,
    overlap,
)
from workloads.declare.workload import arrange

ORDER = (
    # health: first, with the cursor on it at the start, what has a speed-up on every machine
    "matmul",
    "matmul_sweep",
    "transfer",
    "copy_sizes",
    "device_copy",
    "reductions",
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
