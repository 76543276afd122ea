"""The workloads. Importing this package declares them all, without torch.

They are listed in the order of declaration, so the imports stand in the order of the screen.
"""

# ruff: noqa: F401, I001 (imported for what they declare, in the order of the screen)

from workloads.catalog import transfer, transfer_placement, transfer_copies, transfer_overlap
from workloads.catalog import compute, compute_shapes, compute_precision, compute_float8
from workloads.catalog import compute_attention
from workloads.catalog import compute_memory_bound, compute_linalg, ceiling
from workloads.catalog import convolution, convolution_layers, convolution_layouts
from workloads.catalog import convolution_block, convolution_choice
from workloads.catalog import training, training_step, training_precision, training_memory
from workloads.catalog import training_scaling, training_loading, training_compile
from workloads.catalog import training_profiler
from workloads.catalog import memory, memory_oom, memory_batch
from workloads.catalog import pitfalls, pitfalls_comparing, pitfalls_device, pitfalls_host
from workloads.catalog import multi_gpu_devices, multi_gpu, multi_gpu_burn
