"""List the GPUs that torch sees, and select a device: CUDA, Apple's MPS, or the CPU."""

import torch


def gpu_names() -> list[str]:
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")  # the current one, cuda:0 at first; cuda:1 is the second
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


if __name__ == "__main__":
    print(f"torch {torch.__version__}, built for CUDA: {torch.version.cuda or 'no'}")
    print(f"torch.cuda.device_count(): {torch.cuda.device_count()}")
    for index, name in enumerate(gpu_names()):
        properties = torch.cuda.get_device_properties(index)
        print(
            f"cuda:{index}: {name}, {properties.total_memory / 2**30:.1f} GiB, capability "
            f"{properties.major}.{properties.minor}, {properties.multi_processor_count} SMs"
        )
    print(f"This script would compute on {best_device()}.")
