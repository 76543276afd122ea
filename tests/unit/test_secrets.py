"""A likely secret in a command line never comes out, and what is none stays as it is."""

from __future__ import annotations

import json
import string
import subprocess
import sys

import psutil
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tui.core import reports
from tui.core.text import secrets
from tui.core.text.secrets import MASK
from tui.doctor.doctor import read_newest_reports
from tui.monitor.processes import ProcessOwners
from tui.watch.runs import runs

SECRET = "pl4nted-Zq"
names = st.sampled_from(
    [
        *("password", "passwd", "db-pass", "PGPASSWORD", "MYSQL_PWD", "hf-token", "HF_TOKEN"),
        *("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_SECRET_NAME", "client_secret", "apiKey"),
        *("logger.wandb.api_key", "accessToken", "OPENAI_KEY", "auth", "SSH_PASSPHRASE"),
    ]
)
anything = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12
).map(lambda more: SECRET + more)
one_word = st.text(
    string.ascii_letters + string.digits + "/+=._~!#%^*()[]{}|:,@&;-", max_size=12
).map(lambda more: SECRET + more)
ordinary = st.sampled_from(
    ["python", "-u", "train.py", "--lr", "1e-3", "--verbose", "x=1", "a b", ""]
)


@st.composite
def planted(draw: st.DrawFn) -> list[str]:
    name, secret, word = draw(names), draw(anything), draw(one_word)
    host = draw(st.sampled_from(["db:5432/x", "host", "h/a?b=c@d"]))
    inner = draw(
        st.sampled_from(
            [
                f"{name}={word} python train.py",
                f"run --{name} {word} --lr 1",
                f"run --{name} '{SECRET} with blanks'",
                f"curl -H 'Authorization: Bearer {word}' http://x",
                f'curl -H "authorization: Basic {word}"',
                f"git clone https://jane:{word}@{host}",
                f'{{"lr": 1, "{name}": "{word}"}}',
            ]
        )
    )
    words = draw(
        st.sampled_from(
            [
                [f"--{name}={secret}"],
                [f"--{name}", secret],
                [f"-{name}", secret],
                [f"{name}={secret}"],
                [f"++{name}={secret}"],
                ["-H", f"Authorization: Bearer {secret}"],
                ["Authorization:", "Bearer", secret],
                ["Authorization:", secret],
                [f"postgres://jane:{word}@{host}"],
                [f"https://{SECRET}@github.com/a/b"],
                ["sh", "-c", inner],
            ]
        )
    )
    before, after = draw(st.lists(ordinary, max_size=3)), draw(st.lists(ordinary, max_size=3))
    return ["env", *before, *words, *after]


@given(planted())
def test_a_planted_secret_never_comes_out(words: list[str]) -> None:
    masked = secrets.command_line(words)
    assert SECRET not in " ".join(masked)
    assert any(MASK in word for word in masked)
    assert len(masked) == len(words)


@given(names, one_word, st.sampled_from(["--{}={}", "--{} {}", "{}={}", "x: 1, {}: {}"]))
def test_neither_does_one_in_a_text(name: str, secret: str, form: str) -> None:
    assert SECRET not in secrets.text("it said " + form.format(name, secret) + " and went on")


@given(planted())
def test_what_is_masked_stays_as_it_is(words: list[str]) -> None:
    once = secrets.command_line(words)
    assert secrets.command_line(once) == once


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_words_are_masked_without_an_error(words: list[str]) -> None:
    assert len(secrets.command_line(words)) == len(words)
    assume(words)
    secrets.text(" ".join(words))


@pytest.mark.parametrize(
    "command",
    [
        "python -u train.py --lr 1e-3 --max-tokens 4096 --tokenizer gpt2 --monkey 3",
        "torchrun --nproc-per-node=8 --rdzv-endpoint=host:29500 train.py --author jane",
        "git clone https://github.com/a/b@v1 ssh://git@host/x",
        "postgres: jane idle",
        "python -m pkg.mod model=gpt2 data.path=/a/b:c +keyboard=1 bypass=2",
    ],
)
def test_what_is_no_secret_is_shown(command: str) -> None:
    words = command.split()
    assert secrets.command_line(words) == tuple(words)
    assert secrets.text(command) == command


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "a" * 20,
        "sk-" + "a1" * 12,
        "ghp_" + "a1" * 12,
        "glpat-" + "a1" * 12,
        "AKIA" + "A1" * 8,
        "eyJhbGciOiJI.eyJzdWIiOiIx.abc",
    ],
)
def test_a_well_known_token_is_masked_wherever_it_stands(token: str) -> None:
    assert secrets.command_line(["login", token]) == ("login", MASK)


def test_a_megabyte_takes_no_time_to_speak_of() -> None:
    for piece in (
        "a",
        "-",
        "'",
        '"',
        "key",
        "token=",
        "://a:",
        "--key ",
        "a.b-",
        "\t",
        "bearer ",
        "eyJ-",
    ):
        words = piece * (50_000 // len(piece))
        secrets.command_line([words, words])
        assert len(secrets.text(words)) <= 2 * len(words)


def test_a_process_is_listed_without_its_secrets() -> None:
    code = "print(flush=True); input()"
    argv = [sys.executable, "-c", code, f"--password={SECRET}", "--token", SECRET, "--lr=1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        # Before it runs, its command line is still empty.
        process.stdout.readline()
        started = psutil.Process(process.pid).create_time()
        command = ProcessOwners().find_owner(process.pid, started + 1).command
        process.communicate(b"\n")
    assert command is not None
    assert SECRET not in command
    assert command.endswith(f"--password={MASK} --token {MASK} --lr=1")


def test_a_run_is_kept_and_listed_without_its_secrets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path_factory.mktemp("state")))
    run = runs.new_run(["python", "train.py", f"--api-key={SECRET}"])
    file = run.folder / "run.json"
    assert SECRET not in file.read_text()
    # As an older program wrote it.
    data = json.loads(file.read_text())
    data["command"] = ["python", "train.py", "--token", SECRET]
    file.write_text(json.dumps(data))
    for actual in (*runs.stored_runs(), runs.read_again(run), runs.find_run(run.folder.name)):
        assert actual.command == ("python", "train.py", "--token", MASK)


def test_a_report_holds_none(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path_factory.mktemp("state")))
    path = reports.save("it", [("command", f"x --token {SECRET}")], [f"DB_PASSWORD={SECRET}"])
    assert SECRET not in path.read_text()
    # As an older program wrote it: it goes into the bundle of doctor.
    path.write_text(f"command: x --token {SECRET}\n")
    assert read_newest_reports() == [f"command: x --token {MASK}\n"]
