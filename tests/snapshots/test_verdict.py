"""The verdict at an OOM entry, on states written by hand."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings

from tests.snapshots.generator import Device, Options
from tests.snapshots.helpers import OPTIONS, SEEDS, analysed
from tests.snapshots.scenes import MIB, PIECE, Raw, oom, scene, segment
from tui.core.text.commands import EXAMPLE, RECORDING
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.cause import CAUSE_OF, compute_segment_size
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.explanation import LeadingCause
from tui.snapshots.explain.oom_text import OomText, parse_oom_texts
from tui.snapshots.explain.thresholds import has_fitting_piece
from tui.snapshots.model.results import Cause, Verdict

GIB_TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total"
    " capacity of 1000.00 MiB of which 50.00 MiB is free. Process 4242 has 600.00 MiB memory in"
    " use. Including non-PyTorch memory, this process has 350.00 MiB memory in use. Of the"
    " allocated memory 300.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but"
    " unallocated."
)
ALONE = GIB_TEXT.replace("Process 4242 has 600.00 MiB memory in use. ", "").replace(
    "350.00", "950.00"
)
"""The same where this process has the device for itself."""
HOLED: list[PIECE] = [("free", 60), ("allocated", 1)] * 4
FULL: list[PIECE] = [("allocated", 300)]


def judged(analysis: Analysis, text: str = "") -> Verdict:
    device = analysis.devices[0]
    return judge(device, device.replay.ooms[-1], parse_oom_texts(text))


def whats(verdict: Verdict) -> str:
    return "\n".join(f"{advice.what}: {advice.why}" for advice in verdict.advice)


def test_live_memory_that_fills_the_device() -> None:
    verdict = judged(scene([segment(1 << 30, [("allocated", 900)])], oom(100, 50)), ALONE)
    assert verdict.cause == "truly full"
    assert (verdict.requested, verdict.device_free) == (100 * MIB, 50 * MIB)
    assert (verdict.state.live, verdict.state.reserved) == (900 * MIB, 900 * MIB)
    assert (
        "900 MiB was live in this process, 90% of the device; nothing was cached" in verdict.reasons
    )
    assert verdict.top[0].label == "train.py:5 train_step"
    assert verdict.top[0].share == 1
    assert "train.py:5 train_step held 900 MiB" in whats(verdict)
    assert "expandable" not in whats(verdict)


def test_the_cause_is_unknown_if_the_total_is() -> None:
    verdict = judged(scene([segment(1 << 30, [("allocated", 2048)])], oom(100, 50)))
    assert verdict.cause == "unknown"
    assert "it is unknown whether this process filled it" in verdict.headline
    assert verdict.total is None
    assert "exception's text" in verdict.unavailable["total"]
    assert any(
        "its total and the memory of other processes" in reason for reason in verdict.reasons
    )
    assert "train.py:5 train_step held 2 GiB" in whats(verdict)


def test_the_cause_is_unknown_if_the_free_memory_is_too() -> None:
    verdict = judged(scene([segment(1 << 30, [("allocated", 2048)])], oom(4096, None)))
    assert verdict.cause == "unknown"
    assert "the cause is unknown" in verdict.headline
    assert "the device's free memory was not recorded" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (8, "8.0 MiB (in a new segment of 20.0 MiB, which torch's message states): "),
        (100, "100 MiB: "),
    ],
)
def test_the_headline_has_the_size_of_the_message_too(size: int, words: str) -> None:
    full = segment(1 << 30, [("allocated", 2048)])
    assert judged(scene([full], oom(size, 5))).headline.startswith(f"Could not allocate {words}")


def test_enough_cached_but_in_pieces() -> None:
    analysis = scene(
        [segment(1 << 30, HOLED)], oom(100, 10), settings={"expandable_segments": False}
    )
    verdict = judged(analysis)
    assert verdict.cause == "fragmentation"
    assert verdict.serving_free_block == 60 * MIB
    assert (
        "240 MiB was cached; the largest piece was 60.0 MiB, the request 100 MiB" in verdict.reasons
    )
    assert "expandable_segments:True" in whats(verdict)
    assert "240 MiB was cached in pieces" in whats(verdict)
    assert "1 block of 1.0 MiB split a span of 121 MiB into pieces" in whats(verdict)
    assert "empty_cache" in whats(verdict)


def test_expandable_segments_are_not_advised_where_they_are_on() -> None:
    on = scene([segment(1 << 30, HOLED)], oom(100, 10), settings={"expandable_segments": True})
    assert "expandable_segments" not in whats(judged(on))
    silent = scene([segment(1 << 30, HOLED)], oom(100, 10))
    assert "the file does not say whether expandable" in whats(judged(silent))


def test_what_is_cached_and_free_on_the_device_together_is_enough() -> None:
    verdict = judged(scene([segment(1 << 30, [("free", 60), ("allocated", 10)])], oom(100, 50)))
    assert verdict.cause == "fragmentation"


def test_cached_in_private_pools() -> None:
    graph = segment(1 << 40, [("allocated", 10), ("free", 200)], pool=(0, 7))
    verdict = judged(scene([segment(1 << 30, FULL), graph], oom(100, 10, pool_id=(0, 0))))
    assert verdict.cause == "private pools"
    assert verdict.serving_free_block == 0
    assert verdict.state.private_cached == 200 * MIB
    assert "200 MiB was free inside private pools" in whats(verdict)


def test_a_private_pool_serves_its_own_requests() -> None:
    graph = segment(1 << 40, [("allocated", 10), ("free", 60)] * 2, pool=(0, 7))
    verdict = judged(scene([segment(1 << 30, FULL), graph], oom(100, 10, pool_id=(0, 7))))
    assert verdict.cause == "fragmentation"
    assert any("120 MiB was cached; the largest piece" in reason for reason in verdict.reasons)


def test_a_request_for_a_private_pool_cannot_use_the_pieces_of_the_default_one() -> None:
    graph = segment(1 << 40, [("allocated", 10)], pool=(0, 7))
    pieces: list[PIECE] = [("allocated", 300), ("free", 200)]
    verdict = judged(scene([segment(1 << 30, pieces), graph], oom(100, 10, pool_id=(0, 7))))
    assert verdict.cause == verdict.explanation.cause == "fragmentation"
    assert (
        "200 MiB was cached, 200 MiB of it in the default pool, not in the request's private pool;"
        " no piece was usable" in verdict.reasons
    )
    assert "in pieces that this request cannot use" in verdict.explanation.conclusion


def test_a_few_mib_in_the_cache_are_not_to_blame_on_a_full_device() -> None:
    other = segment(1 << 40, [("allocated", 10), ("free", 30)], stream=77)
    full = [segment(1 << 30, [("allocated", 900)]), other]
    verdict = judged(scene(full, oom(70, 50)), ALONE.replace("100.00 MiB. GPU", "70.00 MiB. GPU"))
    assert verdict.cause == "truly full"
    assert (
        "910 MiB was live in this process, 91% of the device; with the device's free 50.0 MiB, the"
        " cached 30.0 MiB would have been enough for this request if it had been one piece, but not"
        " for the next" in verdict.reasons
    )


def test_cached_for_another_stream() -> None:
    other = segment(1 << 40, [("allocated", 10), ("free", 200)], stream=77)
    verdict = judged(scene([segment(1 << 30, FULL), other], oom(100, 10)))
    assert verdict.cause == "other streams"
    assert any("200 MiB was cached for other streams" in reason for reason in verdict.reasons)


def test_other_processes_by_the_text() -> None:
    verdict = judged(scene([segment(1 << 30, FULL)], oom(100, 50)), GIB_TEXT)
    assert verdict.cause == "other processes"
    assert verdict.total == 1000 * MIB
    assert verdict.others == 600 * MIB
    assert verdict.text is not None
    assert "600 MiB" in whats(verdict)
    assert verdict.unavailable == {}


def test_a_text_of_another_size_is_not_taken() -> None:
    verdict = judged(scene([segment(1 << 30, FULL)], oom(103, 50)), GIB_TEXT)
    assert verdict.text is None
    assert verdict.cause == "unknown"


def test_a_text_with_the_size_of_the_segment_matches() -> None:
    # torch 2.13 on 25 000 000 bytes: the event has 25 000 448, the text 24.00 MiB.
    entry = {**oom(0, 1), "size": 25_000_448}
    text = GIB_TEXT.replace("100.00 MiB. GPU", "24.00 MiB. GPU")
    verdict = judged(scene([segment(1 << 30, FULL)], entry), text)
    assert verdict.text is not None
    assert verdict.total == 1000 * MIB


def test_what_the_text_rounds_away_is_no_other_process() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.40 GiB of"
        " which 1.89 GiB is free. Including non-PyTorch memory, this process has 5.50 GiB memory in"
        " use."
    )
    verdict = judged(scene([segment(1 << 30, [("allocated", 5000)])], oom(2048, 1935)), text)
    assert verdict.others == 0


def test_other_processes_derived_from_the_trace() -> None:
    # 900 MiB were reserved here once, so the device has them; now 300 and 50 are all there is.
    trace: list[Raw] = [
        {"action": "segment_free", "addr": 1 << 41, "size": 600 * MIB, "stream": 0, "frames": []},
        oom(100, 50),
    ]
    verdict = judged(scene([segment(1 << 30, FULL)], *trace))
    assert verdict.cause == "other processes"
    assert verdict.others is None
    assert "at least 550 MiB more was used outside" in " ".join(verdict.reasons)


def test_limit_of_the_process() -> None:
    text = GIB_TEXT.replace("50.00 MiB is free.", "650.00 MiB is free. 350.00 MiB allowed;")
    verdict = judged(scene([segment(1 << 30, FULL)], oom(100, 650)), text)
    assert verdict.cause == "process limit"
    assert "350 MiB" in whats(verdict)


@pytest.mark.parametrize(
    ("pieces", "entry", "why"),
    [
        pytest.param(
            [("allocated", 10), ("free", 200)],
            oom(100, 10),
            "seems to have been free",
            id="piece",
        ),
        pytest.param(
            [("allocated", 300), ("free", 10)],
            oom(100, None),
            "was not recorded",
            id="free not told",
        ),
    ],
)
def test_an_unknown_cause_has_its_reason(pieces: list[PIECE], entry: Raw, why: str) -> None:
    verdict = judged(scene([segment(1 << 30, pieces)], entry))
    assert verdict.cause == "unknown"
    assert why in " ".join(verdict.reasons)


def test_address_space_is_no_memory() -> None:
    text = GIB_TEXT + " The virtual address space reserved for expandable segments is used up."
    verdict = judged(scene([segment(1 << 30, FULL)], oom(100, 50)), text)
    assert verdict.cause == "unknown"
    assert "address space" in verdict.reasons[0]


def test_the_verdict_has_the_stack_of_the_request() -> None:
    verdict = judged(scene([segment(1 << 30, FULL)], oom(100, 50)))
    assert verdict.stack[-1].name == "backward"


def test_only_oom_entries_have_a_verdict() -> None:
    analysis = scene([segment(1 << 30, FULL)], oom(100, 50), {"action": "snapshot", "size": 0})
    with pytest.raises(ValueError, match="event 1 of device 0 is not an OOM event"):
        judge(analysis.devices[0], 1)


def test_sizes_of_segments_requested_from_the_driver() -> None:
    assert compute_segment_size(512, expandable=False) == 2 * MIB
    assert compute_segment_size(3 * MIB, expandable=False) == 20 * MIB
    assert compute_segment_size(11 * MIB, expandable=False) == 12 * MIB
    assert compute_segment_size(21 * MIB, expandable=True) == 40 * MIB


SHOWN_BY: dict[Cause, str] = {
    "larger than the device": "in total",
    "larger than what was free": "was free on the device",
    "truly full": "was live in this process",
    "fragmentation": "was cached",
    "other streams": "was cached for other streams",
    "private pools": "was cached in other pools",
    "unknown": "",
}
"""Words of the sentence that supports each cause that the model can reach."""
BEYOND_THE_MODEL = ("unknown", "other processes", "process limit", "refused with memory free")


def told_by(options: Options, device: Device, event: int) -> OomText:
    """Return the exception's message without rounding; the model has no context."""
    entry = device.entries[event]
    return OomText(
        requested=entry["size"],
        device=device.index,
        total=options.capacity,
        device_free=entry["device_free"],
        process=device.moments[event].reserved,
    )


@given(SEEDS, OPTIONS)
@settings(max_examples=40, deadline=None)
def test_generated_ooms_are_never_contradicted(seed: int, options: Options) -> None:
    """The model fails only for lack of memory, so its failures are never beyond telling."""
    _, devices, analysis = analysed(seed, options)
    for truth in devices:
        one = analysis.devices.get(truth.index)
        for event in one.replay.ooms if one else ():
            assert one is not None
            verdict = judge(one, event, (told_by(options, truth, event),))
            assert verdict.text is not None
            assert SHOWN_BY[verdict.cause] in " ".join(verdict.reasons)
            assert verdict.state.live == truth.moments[event].live
            assert sum(site.bytes for site in verdict.top) <= verdict.state.live
            known_pools = options.pool_ids or not options.private_pools
            if known_pools:
                assert verdict.cause not in BEYOND_THE_MODEL


def test_every_leading_cause_has_a_name_in_the_allocators_terms() -> None:
    assert set(CAUSE_OF) == set(get_args(LeadingCause))
    assert set(CAUSE_OF.values()) == set(get_args(Cause))


@pytest.mark.parametrize(
    ("asked", "largest", "fits"),
    [
        (512, 512, True),
        (512, 0, False),
        (0, 0, False),
        (1 << 20, 1 << 20, True),
        (2 << 20, 2 << 20, False),
        (2 << 20, 3 << 20, True),
        (512, None, False),
    ],
)
def test_only_a_large_piece_may_have_a_rest_in_use(
    asked: int, largest: int | None, fits: bool
) -> None:
    assert has_fitting_piece(asked, largest) == fits


def test_a_dump_after_unwinding_has_a_remark() -> None:
    analysis = scene([segment(1 << 30, [("free", 2000), ("allocated", 20)])])
    summary = analysis.devices[0].summary()
    assert any("except block" in remark for remark in summary.remarks)
    assert summary.live_peak is None
    assert "no history was recorded" in summary.unavailable["live_peak"]
    assert RECORDING in summary.unavailable["live_peak"]
    assert any(EXAMPLE in remark for remark in summary.remarks)


def test_the_watch_is_advised_if_the_requesting_line_is_not_recorded() -> None:
    nowhere = judged(scene([segment(1 << 30, FULL)], oom(100, 50, frames=[])))
    larger = judged(scene([segment(1 << 30, FULL)], oom(1 << 20, 50, frames=[])), ALONE)
    for verdict in (nowhere, larger):
        assert verdict.advice[-1].what == f"start the program with {EXAMPLE}"
        assert "names it" in verdict.advice[-1].why
    named = judged(scene([segment(1 << 30, FULL)], oom(100, 50)))
    assert not any(EXAMPLE in advice.what for advice in named.advice)
