"""Workloads that need several processes: started through torchrun, timed in lock-step.

The worker starts ``torchrun`` (:mod:`torchrun` makes its command, :mod:`launch` follows it), which
starts the ranks. Each rank runs the workload by itself as a worker would; a clock that all ranks
agree on (in :mod:`launch`) has them take the same decisions at the same time.
"""
