"""The names that a file of your own workloads imports; the README shows one."""

from workloads.declare.study import Study
from workloads.declare.workload import Case, Skip, by_device, one_of, whole, words, workload
from workloads.protocol.results import Check

__all__ = [
    "Case",
    "Check",
    "Skip",
    "Study",
    "by_device",
    "one_of",
    "whole",
    "words",
    "workload",
]
