"""Devices, their memory, the processes on them and what their torch allocators hold."""
