"""The command line: the table of commands, and the commands that belong to no feature.

No module here imports Textual, torch or NVML at its top: a command imports its screens when it
starts to work.
"""
