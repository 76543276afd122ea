"""What the tests of the analysis share."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.snapshots.generator import MIB, Device, Options, Raw, generate
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.read.normalise import normalise

OPTIONS = st.builds(
    Options,
    steps=st.integers(0, 120),
    devices=st.integers(1, 3),
    capacity=st.sampled_from((64 * MIB, 256 * MIB, 1024 * MIB)),
    expandable=st.booleans(),
    streams=st.sampled_from(((0,), (0, 0x7F00_1234), (5, 6, 7))),
    private_pools=st.integers(0, 2),
    record_from=st.integers(0, 100),
    max_entries=st.none() | st.integers(1, 80),
    pool_ids=st.booleans(),
    times=st.booleans(),
)
SEEDS = st.integers(0, 2**32)


def analysed(seed: int, options: Options) -> tuple[Raw, list[Device], Analysis]:
    """Return a generated file, the truth and its analysis."""
    raw, devices = generate(seed, options)
    return raw, devices, Analysis(normalise(raw, file="generated"))
