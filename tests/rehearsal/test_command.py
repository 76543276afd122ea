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
from tui.rehearsal.changes import changes, find_batch, halve_batch, lower_precision, savings
from tui.rehearsal.rehearse import (
    FindBatch,
    RehearseOptions,
    find_cards,
    find_interpreter,
    find_values,
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
        (RehearseOptions(TRAIN, find=FindBatch.IN_COMMAND), "no option of the command sets"),
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
        (("train.batch_size=64",), "train.batch_size 32", ("train.batch_size=32",)),
        (("+batch-size=64",), "+batch-size 32", ("+batch-size=32",)),
        (
            ("--training.local_batch_size", "8"),
            "--training.local_batch_size 4",
            ("--training.local_batch_size", "4"),
        ),
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


@pytest.mark.parametrize(
    "words",
    [(), ("--batch", "1"), ("--batch",), ("--batches", "8"), ("batch", "8"), ("b=8",)],
)
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
    assert done.returncode == 4
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "does not run as a Python" in line


def test_the_largest_batch_is_searched_with_the_option_of_the_command() -> None:
    values = find_values(FindBatch.IN_COMMAND, (*TRAIN, "--batch-size=128", "--lr", "3"))
    assert (values.label, values.range) == ("--batch-size", SearchRange("batch", 1, 2048))
    assert values.command_with("7") == (*TRAIN, "--batch-size=7", "--lr", "3")
    small = find_values(FindBatch.IN_COMMAND, (*TRAIN, "--bs", "2"))
    assert small.range.high == 1024


def test_a_placeholder_stands_for_the_value() -> None:
    values = find_values(SearchRange("n", 1, 9), (*TRAIN, "--layers={n}", "{n}"))
    assert values.command_with("4") == (*TRAIN, "--layers=4", "4")


def test_the_command_s_batch_option_is_the_first_with_a_number() -> None:
    option = find_batch((*TRAIN, "--batch-size", "auto", "--micro-batch-size", "4"))
    assert option is not None
    assert (option.name, option.value) == ("--micro-batch-size", "4")


def test_only_settings_that_change_something_are_searched() -> None:
    plan = rehearsed().rehearsal
    both = ["expandable segments", "foreach=False"]
    assert [label for label, _ in savings(plan, True, {})] == both
    assert [label for label, _ in savings(plan, False, {})] == both[:1]
    own = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert [label for label, _ in savings(plan, True, own)] == both[1:]
    other = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    assert [label for label, _ in savings(plan, True, other)] == both[1:]
