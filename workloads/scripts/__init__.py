"""The scripts of the workloads: plain PyTorch that one can run, named like their workloads.

A workload times the functions of its script, so what is timed is what one can copy and run.
"""
