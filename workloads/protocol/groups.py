"""The groups of the catalogue: each gathers the workloads that answer one question. No torch."""

from __future__ import annotations

from collections.abc import Mapping

FIRST_STEPS = "first_steps"
"""The group that teaches; its order is the order of learning, and lists fold it at first."""

UNTIMED_STEPS = frozenset({"device_list", "placement", "comparing_results"})
"""First steps that teach no time; the lesson does not show how long their lines take."""

GPU_ALONE_STEPS = UNTIMED_STEPS | {"device_mismatch", "model_on_cpu"}
"""First steps that a lesson runs on the GPU alone, where there is one: a run on the CPU says the
same or less."""

QUESTIONS: Mapping[str, str] = {
    "health": "Is this machine healthy?",
    "flags": "What does this flag or option do?",
    "training": "Where do time and memory go in my training?",
    "llm": "How fast does a language model run here?",
    "memory": "Why does the memory run out?",
    "multi_gpu": "What do several GPUs bring?",
    FIRST_STEPS: "What should I know first?",
}
"""The question that a group answers, by its key; the order on the screen. A user's own workload
file can name further groups, which have no question."""


def format_heading(group: str) -> str:
    """Return a group's key and its question: ``health: Is this machine healthy?``."""
    return f"{group}: {QUESTIONS[group]}" if group in QUESTIONS else group
