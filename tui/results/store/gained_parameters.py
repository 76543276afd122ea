"""Parameters that workloads gained after results were stored: those results have the default.

A result without the parameter and a present one with its default measured the same, so they are
compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.protocol.results import Setting


@dataclass(frozen=True, slots=True)
class GainedParameter:
    """A parameter that earlier versions of a workload did not have."""

    name: str
    default: Setting
    """Value that measures the same as versions without the parameter."""
    chosen_as: str = ""
    """The parameter whose value such a run uses; empty if it uses the default itself."""


_CACHE = GainedParameter("cache", "warm")
GAINED: Mapping[str, tuple[GainedParameter, ...]] = {
    "attention": (
        _CACHE,
        GainedParameter("backend", "auto"),
        GainedParameter("kv_heads", 0, chosen_as="heads"),
    ),
    "burn": (GainedParameter("verify", "off"), GainedParameter("every", 10)),
    "device_copy": (_CACHE,),
    "matmul": (_CACHE,),
    "reductions": (_CACHE,),
}
"""The parameters gained since version 0.2, by workload."""


def complete_used(workload: str, used: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return a run's parameters, with parameters that its workload gained later."""
    gained = {
        parameter.name: used.get(parameter.chosen_as, parameter.default)
        for parameter in GAINED.get(workload, ())
    }
    return {**gained, **used}


def complete_requested(workload: str, requested: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return a run's requested parameters, with parameters that its workload gained later."""
    return {
        **{parameter.name: parameter.default for parameter in GAINED.get(workload, ())},
        **requested,
    }
