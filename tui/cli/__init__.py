"""The command line: one file for each command in ``commands``, and here what they share.

A file of this room imports neither Textual nor torch nor NVML where it begins: what a command draws
with is imported where its work begins.
"""
