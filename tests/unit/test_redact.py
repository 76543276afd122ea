"""Names of users are taken out of paths and of whatever holds them, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tui.core.text.redact import Redactor, whole_words, with_texts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/home/ann/work/a.py", "/home/user/work/a.py"),
        ("/Users/ann/a.py", "/Users/user/a.py"),
        ("C:\\Users\\Ann Lee\\a.py", "C:\\Users\\user\\a.py"),
        ("/mnt/c/Users/ann/a.py", "/mnt/c/Users/user/a.py"),
        ("/var/home/ann/a.py", "/var/home/user/a.py"),
        ("/root/a.py", "/root/a.py"),
        ("/opt/a.py", "/opt/a.py"),
        ("/tmp/torchinductor_ann/x.py", "/tmp/torchinductor_user/x.py"),
        ('File "/home/ann/a.py", line 3', 'File "/home/user/a.py", line 3'),
        ("/data/ann/run.py and /home/ann/x", "/data/user/run.py and /home/user/x"),
        ("/home/ann/annex.py", "/home/user/annex.py"),
        ("~ann/a.py of ~100 MB", "~user/a.py of ~100 MB"),
    ],
)
def test_names_are_taken_out(before: str, after: str) -> None:
    redact = Redactor([before])
    assert redact(before) == after
    assert redact(redact(before)) == after


@pytest.mark.parametrize(
    ("home", "before", "after"),
    [
        ("/data/people/ann", "/data/people/ann/runs/a.pickle", "~/runs/a.pickle"),
        ("/data/people/ann/", 'File "/data/people/ann", line 3', 'File "~", line 3'),
        ("/data/people/ann", "/data/people/anna/x", "/data/people/anna/x"),
        ("/data/people/ann", "/mnt/data/people/ann/x", "/mnt/data/people/ann/x"),
        ("/home/ann", "/home/ann/x", "/home/user/x"),
        ("/home/group/ann", "/home/group/ann/x", "~/x"),
        ("/root", "/root/x", "/root/x"),
        ("/", "/x/y", "/x/y"),
        ("", "/x/y", "/x/y"),
    ],
)
def test_our_own_home_is_taken_out_wherever_it_is(home: str, before: str, after: str) -> None:
    redact = Redactor(["/home/user/x"], home=home)
    assert redact(before) == after
    assert redact(redact(before)) == after


def test_our_own_name_is_taken_out_of_other_paths() -> None:
    assert Redactor([], name="jane")("/data/jane/x of jane") == "/data/user/x of user"
    assert Redactor([], name="root")("/root/x") == "/root/x"


def test_a_name_within_another_does_not_leave_the_rest_of_it() -> None:
    redact = Redactor(["C:\\Users\\Ann\\a", "C:\\Users\\Ann Lee\\a"])
    assert redact.names == ("Ann", "Ann Lee")
    assert redact("/data/Ann Lee/x and /data/ann") == "/data/user/x and /data/user"


@pytest.mark.parametrize(
    ("names", "within", "after"),
    [
        (("ann", "ann-b"), r"\w", "*-x * * annex a *.c b"),
        (("ann",), r"\w.-", "ann-x ann-b * annex a ann.c b"),
    ],
)
def test_whole_words_are_found(names: tuple[str, ...], within: str, after: str) -> None:
    actual = whole_words(names, within)
    assert actual is not None
    assert actual.sub("*", "ann-x ann-b Ann annex a ann.c b") == after


def test_capitals_may_matter() -> None:
    actual = whole_words(("ann",), any_case=False)
    assert actual is not None
    assert actual.sub("*", "ann Ann") == "* Ann"


def test_no_name_is_found_where_none_is_long_enough() -> None:
    assert whole_words(("", "a")) is None


@dataclass(frozen=True)
class Row:
    name: str
    sizes: tuple[int, ...]


@pytest.mark.parametrize(("keys", "key"), [(True, "A"), (False, "a")])
def test_every_text_within_a_value_is_changed(keys: bool, key: str) -> None:
    value = {"a": [Row("b", (1, 2)), ("c", None, 2.5)]}
    assert with_texts(value, str.upper, keys=keys) == {key: [Row("B", (1, 2)), ("C", None, 2.5)]}
