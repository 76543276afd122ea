"""The watched run's agent data in an OOM's snapshot: the OOM's facts and an inventory."""

from __future__ import annotations

from typing import Any

from tui.snapshots.explain.inventory import (
    KEY,
    NOT_OOM,
    NOT_WATCHED,
    AgentRecord,
    Inventory,
    OomFacts,
    parse_inventory,
    parse_oom_facts,
    parse_roles,
)
from workloads.protocol import wire


def read_agent_record(top: dict[Any, Any]) -> AgentRecord:
    """Parse the agent's record from a snapshot's top level, which may hold arbitrary data there."""
    if KEY not in top:
        return AgentRecord(None, None, NOT_WATCHED, NOT_WATCHED)
    record = top[KEY]
    if not isinstance(record, dict):
        why = f"{KEY} is no object"
        return AgentRecord(None, None, why, why)
    if "roles" in record:
        return _read_roles(record["roles"])
    facts: OomFacts | None = None
    inventory: Inventory | None = None
    why_no_facts = why_no_inventory = ""
    try:
        facts = parse_oom_facts(record.get("oom"))
    except wire.WireError as error:
        why_no_facts = f"it cannot be read: {error}"
    if record.get("inventory") is None:
        why_no_inventory = "the agent could not take an inventory"
    else:
        try:
            inventory = parse_inventory(record["inventory"])
        except wire.WireError as error:
            why_no_inventory = f"it cannot be read: {error}"
    return AgentRecord(facts, inventory, why_no_facts, why_no_inventory)


def _read_roles(plain: Any) -> AgentRecord:
    """Parse the owners of a rehearsal's memory; a rehearsal's end has no OOM and no inventory."""
    try:
        roles = parse_roles(plain)
    except wire.WireError as error:
        why = f"it cannot be read: {error}"
        return AgentRecord(None, None, why, why)
    return AgentRecord(None, None, NOT_OOM, NOT_OOM, roles)
