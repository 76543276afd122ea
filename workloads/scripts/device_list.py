"""List the GPUs that torch sees, and select a device."""

import torch


def gpu_names() -> list[str]:
    if not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    return [torch.cuda.get_device_name(index) for index in range(count)]


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")  # the current one: cuda:0 at first
    if torch.backends.mps.is_available():  # a Mac with Apple's own chip
        return torch.device("mps")
    return torch.device("cpu")


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    print(f"built for CUDA: {torch.version.cuda or 'no'}")
    print(f"torch.cuda.device_count(): {torch.cuda.device_count()}")
    for index, name in enumerate(gpu_names()):
        properties = torch.cuda.get_device_properties(index)
        print(f"cuda:{index}: {name}")
        print(f"  {properties.total_memory / 2**30:.1f} GiB of memory")
        print(f"  capability {properties.major}.{properties.minor}")
        print(f"  {properties.multi_processor_count} multiprocessors")
    print(f"This script would compute on {best_device()}.")
