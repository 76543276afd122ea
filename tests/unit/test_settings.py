"""Settings: who wins, what a broken file costs, and that writing keeps what people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.core.settings import BY_NAME, KNOWN, FromFile, choose, path, read, remember
from workloads.protocol.results import Setting

NOTHING = FromFile(Path("config.toml"), {}, {}, (), writable=True)


def _file(tmp_path: Path, text: str) -> Path:
    place = tmp_path / "config.toml"
    place.write_text(text, encoding="utf-8")
    return place


def test_without_a_file_all_are_defaults_and_nothing_is_wrong(tmp_path: Path) -> None:
    actual, problems = choose(read(tmp_path / "none.toml"), {}, {})
    assert problems == ()
    assert actual.file.problems == ()
    assert {item.source for item in actual.chosen.values()} == {"default"}
    assert [item.name for item in actual.chosen.values()] == [item.name for item in KNOWN]


def test_the_flag_wins_over_the_variable_and_that_over_the_file(tmp_path: Path) -> None:
    file = read(_file(tmp_path, "# mine\nrefresh = 2\n"))
    variable = {"GPU_WORKBENCH_REFRESH": "3"}
    assert choose(file, {}, {})[0].chosen["refresh"].source == f"{file.path}:2"
    assert choose(file, {}, {})[0].value("refresh") == 2.0
    assert choose(file, variable, {})[0].value("refresh") == 3.0
    flagged = choose(file, variable, {"refresh": 4.0})[0].chosen["refresh"]
    assert (flagged.value, flagged.source) == (4.0, "--refresh")


def test_a_broken_file_is_named_with_the_line_and_the_defaults_are_used(tmp_path: Path) -> None:
    place = _file(tmp_path, 'theme = "x"\nrefresh = = 2\n')
    actual = read(place)
    (problem,) = actual.problems
    assert str(place) in problem
    assert "line 2" in problem
    assert "defaults" in problem
    assert not actual.writable
    assert choose(actual, {}, {})[0].value("refresh") == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("refresh = 0.001", ":1: refresh = 0.001: must be 0.2 to 60 seconds"),
        ("\nmouse = 3", ":2: mouse = 3: must be true or false"),
        ("colour = 1", ":1: colour is not known; there are theme, refresh"),
        ("parameters = 3", ":1: parameters is not a table"),
        ("[parameters.matmul]\nn = [1]", ":2: n: not a single value"),
        ('theme = ""', ":1: theme = '': must be a theme's name"),
    ],
)
def test_a_value_that_is_not_allowed_costs_only_itself(
    tmp_path: Path, text: str, words: str
) -> None:
    actual = read(_file(tmp_path, text + '\ndevice = "cpu"\n' if "[" not in text else text))
    assert words in actual.problems[0]
    if "[" not in text:
        assert choose(actual, {}, {})[0].value("device") == "cpu"


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    place.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in read(place).problems[0]
    assert "irectory" in read(tmp_path).problems[0]


def test_a_variable_that_cannot_be_used_is_named_and_ignored() -> None:
    actual, problems = choose(NOTHING, {"GPU_WORKBENCH_REFRESH": "fast"}, {})
    assert actual.value("refresh") == 1.0
    assert problems == ("GPU_WORKBENCH_REFRESH='fast': must be 0.2 to 60 seconds; it is ignored",)


def test_writing_keeps_comments_order_and_other_values(tmp_path: Path) -> None:
    place = _file(tmp_path, '# on the bench\nrefresh = 2 # slow link\n\ndevice = "cpu"\n')
    remember(place, {"theme": "textual-light"}, {"matmul": {"n": 4096}})
    text = place.read_text()
    assert text.startswith("# on the bench\nrefresh = 2 # slow link\n")
    actual = read(place)
    assert actual.problems == ()
    assert actual.values["theme"][0] == "textual-light"
    assert actual.parameters == {"matmul": {"n": 4096}}
    remember(place, {"theme": None}, {"matmul": {}})
    assert place.read_text().rstrip() == '# on the bench\nrefresh = 2 # slow link\n\ndevice = "cpu"'


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    place = _file(tmp_path, "refresh = = 2\n")
    with pytest.raises(ValueError, match="left as it is"):
        remember(place, {"device": "cpu"}, {})
    assert place.read_text() == "refresh = = 2\n"


def test_the_file_is_the_users_own(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "config.toml"
    remember(place, {"device": "cpu"}, {})
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert list(place.parent.iterdir()) == [place]


def test_the_variable_names_another_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "mine.toml"))
    assert path() == tmp_path / "mine.toml"


VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=10),
        st.dictionaries(st.text(min_size=1, max_size=10), VALUES, min_size=1, max_size=3),
        max_size=3,
    )
)
def test_what_is_remembered_is_read_back(
    tmp_path: Path, parameters: dict[str, dict[str, Setting]]
) -> None:
    place = tmp_path / "config.toml"
    place.unlink(missing_ok=True)
    remember(place, {"device": "cpu"}, parameters)
    assert read(place).parameters == parameters
    assert set(BY_NAME) >= set(read(place).values)
