"""What is known of the NVIDIA driver: NVML may be missing where CUDA works, as in a container."""

from __future__ import annotations

from dataclasses import replace

from tui.monitor.messages import Driver
from workloads.protocol.inventory import Environment

WITHOUT_NVML = (
    "no NVML: libnvidia-ml.so.1 is not found, though CUDA works; in a container set "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility, otherwise LD_LIBRARY_PATH"
)
NOT_ASKED = "NVML cannot be asked here"
"""Why a figure of NVML is absent; the line above the devices says why that is."""


def uses_cuda(environment: Environment | None) -> bool:
    """Whether torch has a CUDA device of NVIDIA's."""
    if environment is None or environment.cuda is None:
        return False
    return any(device.id.startswith("cuda") for device in environment.devices)


def as_torch_knows(driver: Driver, environment: Environment | None) -> Driver:
    """The driver as the monitor found it, but never as missing where torch works with it.

    Args:
        driver: as the monitor tells it.
        environment: of the runner; ``None`` before it is known.
    """
    if driver.missing and uses_cuda(environment):
        return replace(driver, missing=False, error=WITHOUT_NVML)
    return driver
