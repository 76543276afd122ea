"""Command lines in few cells: program and script first, then what distinguishes them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.core.text.commands import distinguish, name_program, shorten_command

WORDS = st.lists(st.text("ab-/=.1 ", min_size=1, max_size=6), max_size=8)


@pytest.mark.parametrize(
    ("command", "short", "program"),
    [
        (
            "~/.cache/uv/envs/x/bin/python3.11 train.py --lr 3e-4",
            "python3.11 train.py --lr 3e-4",
            "train.py",
        ),
        ("python -u /home/ada/exp/train.py x", "python train.py x  from /home/ada/exp", "train.py"),
        ("python -W ignore a/b.py", "python b.py  from a", "b.py"),
        ("/usr/bin/python -m torch.distributed.run t.py", "python -m torch.distributed.run t.py",
         "torch.distributed.run"),
        ("python -c import torch", "python -c import torch", "python"),
        ("/opt/vllm/bin/vllm serve llama", "vllm serve llama", "vllm"),
        ("[kworker/u4:0-events]", "[kworker/u4:0-events]", "[kworker/u4:0-events]"),
        ("python", "python", "python"),
        ("", "", ""),
        ("n/a", "n/a", "n/a"),
        ("/bin/", "/bin/", "/bin/"),
    ],
)  # fmt: skip
def test_the_folders_come_last(command: str, short: str, program: str) -> None:
    assert shorten_command(command) == short
    assert name_program(command) == program


def test_what_differs_comes_first_and_dots_stand_for_what_is_shared() -> None:
    rank = "python /w/train.py --data /big --seed=1 --rank {}"
    actual = distinguish([rank.format(0), rank.format(1), "vllm serve llama", "vllm serve qwen"])
    assert actual == [
        "python train.py --rank 0 … --data /big --seed=1  from /w",
        "python train.py --rank 1 … --data /big --seed=1  from /w",
        "vllm serve llama",
        "vllm serve qwen",
    ]


def test_commands_that_are_alone_or_equal_stay_in_their_order() -> None:
    assert distinguish(["python a.py --x 1 --y 2"]) == ["python a.py --x 1 --y 2"]
    code = ["python -c import torch, time", "/usr/bin/python3 -u -c import sys, time"]
    assert distinguish(code) == ["python -c import torch, time", "python3 -c import sys, time"]
    assert distinguish(["python -c import a", "python -c import b"])[1] == "python -c import b"
    assert distinguish(["serve a", "serve a"]) == ["serve a", "serve a"]
    assert distinguish(["run --lr 1 --x", "run --lr 2 --x"]) == ["run --lr 1 --x", "run --lr 2 --x"]


@given(st.lists(WORDS, max_size=4))
@example([["11", "-", "-", "11", "1"], ["11", "-", "11", "-", "1"]])
def test_no_word_is_lost_and_different_commands_stay_different(lists: list[list[str]]) -> None:
    commands = ["serve " + " ".join(words) for words in lists]
    actual = distinguish(commands)
    for command, short in zip(commands, actual, strict=True):
        assert sorted(short.replace("…", "").split()) == sorted(command.split())
    assert len({*actual}) == len({" ".join(command.split()) for command in commands})
