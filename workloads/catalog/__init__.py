"""The workloads. Importing this package declares them all, without torch.

They are listed in the order of declaration, so the imports stand in the order of the screen.
"""

# ruff: noqa: F401, I001 (imported for what they declare, in the order of the screen)

from workloads.catalog.transfer import copies, placement, copy_sizes, overlap
from workloads.catalog.compute import matmul, shapes, precision, float8
from workloads.catalog.compute import attention
from workloads.catalog.compute import memory_bound, linalg, ceiling
from workloads.catalog.convolution import conv2d, layers, layouts
from workloads.catalog.convolution import block, choice
from workloads.catalog.training import mlp, cnn, mixed_precision, saving_memory
from workloads.catalog.training import batch_scaling, data_loading, transformer_compile
from workloads.catalog.training import profiler
from workloads.catalog.memory import allocations, out_of_memory, largest_batch
from workloads.catalog.pitfalls import naive_timing, comparing, wrong_device, host_bound
from workloads.catalog.pitfalls import cuda_graph
from workloads.catalog.multi_gpu import devices, collectives, burn
