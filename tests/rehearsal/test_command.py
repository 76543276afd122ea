"""``gpu-workbench rehearse`` up to its first rehearsal: options, interpreters, changes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.outcomes import rehearsed
from tui.kit.command_line.output import UsageError
from tui.rehearsal.cards import CARDS
from tui.rehearsal.cli.rehearse import (
    RehearseOptions,
    changes,
    find_cards,
    find_interpreter,
    halve_batch,
    lower_precision,
    run_rehearse,
)
from tui.rehearsal.search import SearchRange

TRAIN = ("python", "train.py")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RehearseOptions(), "give a command after --"),
        (RehearseOptions(TRAIN, gpus=9), "--gpus 9: 1 to 8"),
        (RehearseOptions(TRAIN, steps=-1), "--steps -1"),
        (RehearseOptions(TRAIN, gpu="h1000"), "no such card"),
        (RehearseOptions(TRAIN, find=SearchRange("batch", 1, 8)), "put {batch} into the command"),
        (
            RehearseOptions((*TRAIN, "{batch}"), gpu="all", find=SearchRange("batch", 1, 8)),
            "give one card",
        ),
        (RehearseOptions(("no-such-program",)), "no such program"),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused(
    options: RehearseOptions, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run_rehearse(options)
    assert words in str(caught.value)


def test_all_stands_for_every_card() -> None:
    assert find_cards("all") == CARDS
    assert [card.key for card in find_cards("4090")] == ["4090"]


def _script(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_the_interpreter_is_found_in_the_command(tmp_path: Path) -> None:
    assert find_interpreter([sys.executable, "train.py"]) == sys.executable
    own = _script(tmp_path / "torchrun", f"#!{sys.executable}", "import torch")
    assert find_interpreter([own, "train.py"]) == sys.executable
    env = _script(tmp_path / "accelerate", "#!/usr/bin/env python3", "")
    assert find_interpreter([env]) == "python3"
    long = _script(tmp_path / "pip", "#!/bin/sh", '\'\'\'exec\' "/very/long/python" "$0" "$@"')
    assert find_interpreter([long]) == "/very/long/python"


def test_a_command_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--python PATH"):
        find_interpreter([_script(tmp_path / "train.sh", "#!/bin/sh", "python train.py")])


@pytest.mark.parametrize(
    ("words", "label", "changed"),
    [
        (("--batch", "64"), "--batch 32", ("--batch", "32")),
        (("--lr", "3", "--batch-size=9"), "--batch-size 4", ("--lr", "3", "--batch-size=4")),
        (("--per_device_train_batch_size", "2"), "--per_device_train_batch_size 1", None),
        (("-b", "8"), "-b 4", ("-b", "4")),
    ],
)
def test_the_batch_size_is_halved(
    words: tuple[str, ...], label: str, changed: tuple[str, ...] | None
) -> None:
    found = halve_batch((*TRAIN, *words))
    assert found is not None
    assert found[0] == label
    if changed is not None:
        assert found[1] == (*TRAIN, *changed)


@pytest.mark.parametrize("words", [(), ("--batch", "1"), ("--batch",), ("--batches", "8")])
def test_a_command_without_a_batch_size_is_not_changed(words: tuple[str, ...]) -> None:
    assert halve_batch((*TRAIN, *words)) is None


def test_the_changes_that_are_tried() -> None:
    plan = replace(rehearsed().rehearsal, command=(*TRAIN, "--batch", "8"))
    found = dict(changes(plan))
    assert list(found) == ["expandable segments", "foreach=False in the optimizer", "--batch 4"]
    assert found["foreach=False in the optimizer"].environment({})["GPU_WORKBENCH_FOREACH"] == "0"


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (("--dtype", "float32"), "--dtype bfloat16"),
        (("--precision=fp32",), "--precision bf16"),
        (("--dtype", "float16"), None),
        (("--dtype",), None),
    ],
)
def test_a_precision_of_float32_is_lowered(words: tuple[str, ...], label: str | None) -> None:
    found = lower_precision((*TRAIN, *words))
    assert (found and found[0]) == label


def test_a_torch_that_cannot_be_simulated_is_one_line(tmp_path: Path) -> None:
    fake = _script(tmp_path / "python", "#!/bin/sh", "exit 3")
    words = [sys.executable, "-m", "tui", "rehearse", "--", fake, "train.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "does not run as a Python" in line
