"""Devices, their memory, the processes on them and the memory of their torch allocators."""
