"""The monitor: a child process that samples NVML and the host. No Textual, no torch."""
