"""A rehearsal that is started from the screen: what is typed, and the run that is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.tiers import VARIANT
from tui.watch.session.rehearsal_start import RehearsalError, RehearsalRequest, start_rehearsal


def test_the_arguments_are_those_of_the_command_line() -> None:
    request = RehearsalRequest("python 'my train.py' --batch 8", " 24G ", "2", "0")
    assert request.arguments() == (
        *("rehearse", "--gpu=24G", "--gpus=2", "--steps=0", "--"),
        *("python", "my train.py", "--batch", "8"),
    )


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (RehearsalRequest(), "give a command"),
        (RehearsalRequest("python 'train.py"), "No closing quotation"),
        (RehearsalRequest("python train.py", "all"), "give one card"),
        (RehearsalRequest("python train.py", " "), "give one card"),
    ],
)
def test_what_cannot_be_started_is_reported_at_once(request_: RehearsalRequest, words: str) -> None:
    with pytest.raises(RehearsalError, match=words):
        request_.arguments()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        pytest.param(
            RehearsalRequest("no-such-program"), "no-such-program: no such program", marks=VARIANT
        ),
        # Longer than a line: the whole sentence, not its end.
        (RehearsalRequest("python train.py", "h1000"), "^--gpu h1000: no such card.* as 24G$"),
        pytest.param(
            RehearsalRequest("python train.py", gpus="99"), "--gpus 99: 1 to 8", marks=VARIANT
        ),
        pytest.param(RehearsalRequest("python train.py", steps="x"), "steps", marks=VARIANT),
    ],
)
def test_what_the_command_line_refuses_is_reported_with_its_words(
    request_: RehearsalRequest,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    with pytest.raises(RehearsalError, match=words):
        asyncio.run(asyncio.wait_for(start_rehearsal(request_), 60))
