"""``gpu-workbench config``, and how settings reach the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui.app.workbench import DEFAULT_REFRESH_S
from tui.cli.program import parse
from tui.core.settings import BY_NAME, THEME, Settings
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import python_of, resolve, with_theme


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


def settings_of(*argv: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of a start with these arguments, and the problems of their sources."""
    return resolve(parse(argv).values["overrides"])


def test_each_value_is_printed_with_its_source(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write_text("# slow link\nrefresh = 5\n[parameters.matmul]\nn = 512\n")
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    assert parse(["--no-mouse", "config"]).carry_out() == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows["refresh"].split()[1:] == ["5.0", f"[{place}:2]"]
    assert rows["theme"].split()[1:] == ["nord", "[TEXTUAL_THEME]"]
    assert rows["mouse"].split()[1:] == ["false", "[--no-mouse]"]
    assert rows["ascii"].split()[1:] == ["false", "[default]"]
    assert rows["runs_size"].split()[1:] == ["5G", "[default]"]
    assert rows["log_size"].split()[1:] == ["256M", "[default]"]
    assert rows["device"].split()[1:3] == ["not", "set:"]
    assert rows["parameters.matmul.n"].split()[1:] == ["512"]
    # The values are in one column.
    assert len({rows[name].index(rows[name].split()[1]) for name in BY_NAME}) == 1


def test_as_json_an_absent_value_has_its_reason(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse(["config", "--json"]).carry_out() == 0
    actual = json.loads(capsys.readouterr().out)
    assert actual["schema"] == 1
    assert actual["file"] == {"path": str(place), "exists": False}
    assert set(actual["settings"]) == set(BY_NAME)
    assert actual["settings"]["device"]["value"] is None
    assert "first GPU" in actual["unavailable"]["settings.device.value"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("refresh = = 2", "at line 1"),
        ('theme = "none such"', ":1: no theme none such: T in the workbench shows all"),
        ("[parameters.matmul]\nn = 0", "[parameters.matmul] n: 0 is not allowed; whole number"),
    ],
)
def test_what_is_wrong_is_a_line_on_stderr_and_exit_code_1(
    place: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write_text(text)
    assert parse(["config"]).carry_out() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_path_prints_only_the_place(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["config", "--path"]).carry_out() == 0
    assert capsys.readouterr().out == f"{place}\n"


@pytest.mark.parametrize("text", ["0.1", "61", "soon", "nan"])
def test_a_refresh_that_is_not_allowed_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"must be 0\.2 to 60 seconds"):
        parse(["--refresh", text])


@pytest.mark.usefixtures("place")
def test_a_theme_that_there_is_not_is_refused_where_the_command_line_names_it() -> None:
    settings = settings_of("--theme", "none such")
    with pytest.raises(UsageError, match="no theme none such: T in the workbench shows all"):
        with_theme(*settings)


def test_the_same_from_the_file_is_told_and_the_default_is_used(place: Path) -> None:
    place.write_text('theme = "none such"\n')
    chosen, problems = with_theme(*settings_of())
    assert chosen.value("theme") == THEME
    assert problems[0].endswith(f"; {THEME} is used")


def test_the_python_of_the_file_runs_the_workloads(place: Path, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.touch(0o755)
    place.write_text(f'python = "{program}"\n')
    assert python_of(settings_of("run", "matmul")[0]).path == str(program)


def test_another_python_is_not_taken_where_that_of_the_file_is_not_there(place: Path) -> None:
    place.write_text('python = "/none/such"\n')
    chosen, _problems = settings_of("run", "matmul")
    with pytest.raises(UsageError, match=r"config\.toml:1: python /none/such: no program there"):
        python_of(chosen)


def test_the_defaults_are_the_same_wherever_they_stand() -> None:
    assert BY_NAME["refresh"].default == DEFAULT_REFRESH_S
    assert BY_NAME["theme"].default == THEME
