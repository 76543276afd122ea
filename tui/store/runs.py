"""What is kept of a run and of a comparison that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tui.store.conditions import Conditions
from workloads import protocol
from workloads.fact import fact
from workloads.inventory import Setting
from workloads.results import Arm, Comparison, RunResult


@fact
class RunState:
    """One requested run: queued, going on (``progress``) or ended (``result``)."""

    request: protocol.Run
    progress: protocol.Progress | None = None
    so_far: RunResult | None = None
    """Its time is taken; what its study has found grows."""
    result: RunResult | None = None
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""
    demo: bool = False
    """Asked for by the demo, not by the user."""

    @property
    def ended(self) -> bool:
        return self.result is not None


@fact
class CompareState:
    """One requested comparison with what it has found so far."""

    request: protocol.Compare
    progress: protocol.Progress | None = None
    comparison: Comparison | None = None
    done: bool = False
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""


def ended_comparison(state: CompareState, ending: protocol.Rejected) -> Comparison:
    """A comparison that ended before it could say so itself; its pairs so far are kept."""
    request = state.request
    so_far = state.comparison or Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flag=request.flag,
        arms=(
            Arm(request.settings[0], None, None),
            Arm(request.settings[1], None, None),
        ),
        ratio=None,
        ci95=None,
        pairs=0,
        pairs_wanted=request.pairs or 0,
        verdict="unclear",
        break_even_calls=None,
        fresh_process=False,
    )
    return replace(so_far, status=ending.status, reason=ending.reason)


def same_parameters(
    parameters: Mapping[str, Setting],
) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(parameters.items()))
