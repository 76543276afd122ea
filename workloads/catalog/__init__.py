"""The workloads. Importing this package declares them all, without torch.

The order of declaration is the order on the screen, so the imports follow it. Functions that
prepare a workload import the modules that need torch: torch itself, ``declare.place``,
``measure.environment`` and ``shared.models``.
"""

# ruff: noqa: F401, I001 (imported for what they declare, in the order of the screen)

from workloads.catalog.transfer import copies, rates, weights
from workloads.catalog.compute import (
    products,
    decode_products,
    precisions,
    attention,
    operations,
    ceiling,
)
from workloads.catalog.convolution import layers, layouts, choice
from workloads.catalog.training import steps, mixed_precision, memory, activations
from workloads.catalog.training import optimizers, data_loading, tools
from workloads.catalog.language import generation
from workloads.catalog.memory import held, largest_batch
from workloads.catalog.pitfalls import measuring, wrong_device, host_bound, cuda_graph
from workloads.catalog.multi_gpu import devices, collectives, collective_operations, sharding, burn
