"""The scripts of the workloads: plain PyTorch that one can run, named like their workloads.

A workload times the functions of its script, so users can copy and run the timed code.
"""
