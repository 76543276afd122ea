"""Import the scripted NVML, for programs started with its environment."""

from tests.nvml.fixtures import scripted_library, scripted_nvml

__all__ = ["scripted_library", "scripted_nvml"]
