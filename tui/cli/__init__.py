"""The command line: the table of commands, and those that belong to no feature.

Nothing here imports Textual, torch or NVML where it begins: what a command draws with is imported
where its work begins.
"""
