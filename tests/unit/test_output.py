"""Text that leaves the program: what is taken out of it, and what a stream without room does."""

from __future__ import annotations

import errno
import io
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.core.text.glyphs import ASCII, UNICODE, clean, rows_of_text
from tui.doctor.doctor import SAMPLE_TIMEOUT_S
from tui.kit.command_line import output
from tui.kit.command_line.output import Failure, OutputClosedError, wrap_rows
from tui.monitor import monitor

ODD = st.characters(categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
TEXT = st.text(st.one_of(st.characters(), ODD, st.sampled_from("\x1b\x9b\x07\x7f\r\n\u202e")))


@given(TEXT)
def test_cleaned_text_is_one_line_of_characters_that_do_nothing(text: str) -> None:
    actual = clean(text)
    assert len(actual) == len(text)
    assert len(actual.splitlines()) <= 1
    forbidden = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not forbidden & {unicodedata.category(character) for character in actual}
    assert not {unicodedata.bidirectional(character) for character in actual} & {
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    }  # fmt: skip
    assert clean(actual) == actual


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_what_does_nothing_is_left_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(st.lists(TEXT))
def test_a_row_stays_one_row(rows: list[str]) -> None:
    assert rows_of_text(rows).count("\n") == len(rows)


@given(TEXT, st.sampled_from(["ascii", "latin-1", "cp1252", "koi8-r"]))
def test_any_text_can_be_written_in_any_encoding(text: str, encoding: str) -> None:
    written = text.encode(encoding, errors=glyphs.SPELLED_OUT)
    assert written.decode(encoding).encode(encoding) == written


def test_units_and_signs_stay_what_they_are_in_ascii() -> None:
    words = "3.1 µs ±2% ≤ 4 → 5×… √n"
    assert words.encode("ascii", errors=glyphs.SPELLED_OUT) == b"3.1 us +/-2% <= 4 -> 5x... sqrtn"
    for name in ("ellipsis", "dash", "arrow", "micro", "plus_minus", "at_most"):
        spelled = getattr(UNICODE, name).encode("ascii", errors=glyphs.SPELLED_OUT).decode()
        assert spelled == getattr(ASCII, name)


class Refusing(io.StringIO):
    """A stream that takes nothing."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def flush(self) -> None:
        raise OSError(self._code, os.strerror(self._code))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EAGAIN])
def test_whatever_keeps_it_from_being_printed_what_was_measured_is_kept(
    code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    monkeypatch.setattr("sys.stdout", Refusing(code))
    with pytest.raises(Failure, match="the output is saved in") as failure:
        output.print_text("one\ntwo \x1b[2J\n", "run.txt")
    (saved,) = (tmp_path / "results").iterdir()
    assert str(failure.value).endswith(str(saved))
    assert saved.read_text() == "one\ntwo ?[2J\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE])
def test_rows_that_cannot_be_printed_are_kept_with_those_before(
    code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    printed = io.StringIO()
    monkeypatch.setattr("sys.stdout", printed)
    rows = output.Rows("run.txt")
    rows.add("one\n")
    assert printed.getvalue() == "one\n"
    monkeypatch.setattr("sys.stdout", Refusing(code))
    rows.add("two \x1b[2J\n")
    rows.add("three\n")
    assert rows.reader_gone == (code == errno.EPIPE)
    with pytest.raises(Failure, match="the output is saved in"):
        rows.end()
    (saved,) = (tmp_path / "results").iterdir()
    assert saved.read_text() == "one\ntwo ?[2J\nthree\n"


@pytest.mark.parametrize(
    ("code", "ends"), [(errno.EPIPE, OutputClosedError), (errno.ENOSPC, Failure)]
)
def test_lines_without_end_are_not_kept(
    code: int, ends: type[Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    rows = output.Rows("")
    monkeypatch.setattr("sys.stdout", Refusing(code))
    rows.add("one\n")
    assert rows.failed
    with pytest.raises(ends):
        rows.end()
    assert not (tmp_path / "state").exists()


def test_results_of_the_same_moment_do_not_take_each_others_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    monkeypatch.setattr("sys.stdout", Refusing(errno.ENOSPC))
    for number in range(30):
        with pytest.raises(Failure):
            output.print_text(str(number), "run.json")
    assert len(list((tmp_path / "results").iterdir())) == 30


def test_what_can_be_had_again_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("sys.stdout", Refusing(errno.ENOSPC))
    with pytest.raises(Failure, match=r"^standard output cannot be written: No space left"):
        output.print_text("one")
    monkeypatch.setattr("sys.stdout", Refusing(errno.EPIPE))
    with pytest.raises(OutputClosedError):
        output.print_text("one")
    assert not (tmp_path / "state").exists()


def test_what_is_said_where_nobody_hears_it_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Refusing(errno.ENOSPC))
    output.print_notice("to nobody")


def test_what_is_said_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_notice("no \x1b[31mname\nof two lines")
    assert capsys.readouterr().err == "gpu-workbench: no ?[31mname of two lines\n"


def test_one_file_of_the_command_line_writes_to_the_standard_streams() -> None:
    folder = Path(output.__file__).parent
    writes = re.compile(r"sys\.(__)?std(out|err)(__)?\.(write|flush|buffer)|\bprint\(")
    actual = {path.name for path in folder.rglob("*.py") if writes.search(path.read_text("utf-8"))}
    assert actual == {"output.py"}


def test_doctor_waits_longer_for_the_monitor_than_the_monitor_for_nvml() -> None:
    # Otherwise a driver that hangs would cost the host's figures too.
    assert SAMPLE_TIMEOUT_S > monitor.ONLY_WAIT + monitor.LOAD_SPAN + 2


def test_a_row_that_is_too_long_is_wrapped_below_its_column() -> None:
    row = "passed   torch          2.13.0+cpu in Python 3.11.7 at /work/bin/python, its own"
    assert wrap_rows(row, 60) == (
        "passed   torch          2.13.0+cpu in Python 3.11.7 at\n"
        "                        /work/bin/python, its own"
    )
    assert wrap_rows(row, 80) == row
    assert wrap_rows("one two\n\nc", 6) == "one\n  two\n\nc"


def test_a_row_is_broken_between_its_columns_and_not_within_a_figure() -> None:
    row = "matmul n=64      cpu      58.9 µs ±2%  9.14 GFLOP/s  857 MB/s  peak 2.5 MiB"
    assert wrap_rows(row, 60) == (
        "matmul n=64      cpu      58.9 µs ±2%  9.14 GFLOP/s\n"
        "                          857 MB/s  peak 2.5 MiB"
    )
    assert wrap_rows("  a  a long sentence of words  b", 16) == (
        "  a  a long\n     sentence of\n     words  b"
    )


WORDS = st.lists(st.text("abc-/=", min_size=1, max_size=20), max_size=12)


@given(WORDS, st.integers(0, 30), st.integers(10, 100))
def test_wrapping_breaks_no_word_and_loses_none(words: list[str], lead: int, cells: int) -> None:
    row = " " * lead + "  ".join(words)
    wrapped = wrap_rows(row, cells)
    assert wrapped.split() == row.split()
    longest = max(map(len, words), default=0)
    assert all(len(item) <= max(cells, cells // 2 + longest, lead + longest)
               for item in wrapped.split("\n"))  # fmt: skip


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "agrees"), [("y\n", True), ("\n", False), ("", False)])
def test_a_question_is_asked_on_a_terminal_alone(
    typed: str, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal(typed))
    asked = _Terminal()
    monkeypatch.setattr("sys.stderr", asked)
    assert output.confirm("Delete 2 results?") is agrees
    assert asked.getvalue() == "Delete 2 results? [y/N] "
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert output.confirm("Delete 2 results?")
