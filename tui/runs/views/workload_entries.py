"""The entries of the table of workloads: its groups and, in each, the workloads that are found."""

from __future__ import annotations

from tui.runs.state.state import RunsState
from tui.runs.views.search import rank_workloads
from tui.runs.views.workload_table import Entry, Group, build_row
from workloads.protocol.results import WorkloadInfo


def build_entries(
    state: RunsState, pattern: str = "", folded: frozenset[str] = frozenset()
) -> list[Entry]:
    """Group the workloads, the groups in the order of their first appearance.

    With a pattern, the best match comes first, both among the groups and within each.

    Args:
        state: the state of the runs.
        pattern: words that a workload must match; matches are shown even in a folded group.
        folded: names of groups whose workloads are hidden.
    """
    groups: dict[str, list[WorkloadInfo]] = {}
    scores = rank_workloads(state.catalogue, pattern)
    # Sorting is stable: equal matches stay in the order of the catalogue.
    fitting = [info for info in state.catalogue if info.name in scores]
    for info in sorted(fitting, key=lambda info: -scores[info.name]):
        groups.setdefault(info.group, []).append(info)
    entries: list[Entry] = []
    for name, members in groups.items():
        hide = name in folded and not pattern.strip()
        entries.append(Group(name, hide, len(members)))
        if not hide:
            entries.extend(build_row(state, info) for info in members)
    return entries
