"""Workloads that need several processes: started through torchrun, timed in lock-step.

The worker starts ``torchrun`` (:mod:`torchrun` builds its command, :mod:`launch` monitors it),
which starts the ranks. Each rank runs the workload by itself like a worker; with a shared clock (in
:mod:`launch`), all ranks make the same decisions at the same time.
"""
