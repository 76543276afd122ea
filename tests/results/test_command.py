"""The commands over the store: what they print, refuse and change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.results.samples import HOUR, kept
from tui.cli.program import parse
from tui.kit.command_line.output import UsageError
from tui.results.store import store_path
from tui.results.store.database import Database
from tui.results.store.records import StoredResult

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))

    def call(*words: str, code: int = 0) -> str:
        assert parse(["results", *words]).carry_out() == code
        told = capsys.readouterr()
        return told.out if code == 0 else told.err

    return call


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[StoredResult]:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    ones = [kept(number * HOUR, median=1e-3 * (1 + number % 3 / 1000)) for number in range(4)]
    ones += [
        kept((100 + number) * HOUR, median=1.2e-3, facts={"driver": "590.1"}, tags=("new",))
        for number in range(4)
    ]
    with Database(store_path(), writing=True) as database:
        database.add(ones)
    return ones


def test_of_nothing_it_says_where_things_would_be(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "state" / "results.sqlite3"
    assert run() == f"no results are stored in {place}: run and the workbench store theirs there\n"
    assert json.loads(run("--json"))["results"] == []
    assert not place.exists()


def test_the_help_of_compare_names_both_sides_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["results", "compare", "--help"])
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.endswith(" A B")
    assert "A B" not in rest


def test_they_are_listed_and_filtered(run: Run, store: list[StoredResult]) -> None:
    assert run() == run("list")
    assert run("list").startswith("8 results, machine alpha, GPU NVIDIA H200")
    assert run("--limit", "2").startswith("the newest 2 of 8 results")
    assert run("list", "--tag", "new").startswith("4 results")
    assert "none of the 8 stored results matches" in run("list", "--box", "beta")
    found = json.loads(run("list", "--workload", "matmul", "--json", "--since", "2001-09-20"))
    assert found["results"] == []
    found = json.loads(run("list", "--device", "cuda", "--json"))
    assert [row["id"] for row in found["results"]] == [one.record.id for one in reversed(store)]
    assert len(found["environments"]) == 2
    assert {json.dumps(row["parameters"]) for row in found["results"]} == {'{"n": 4096}'}
    nulls = [{name for name in row if row[name] is None} for row in found["results"]]
    assert nulls == [{*row["unavailable"]} for row in found["results"]]


def test_one_is_shown_by_the_beginning_of_its_id(run: Run, store: list[StoredResult]) -> None:
    identity = store[0].record.id
    text = run("show", identity[:10])
    assert text.startswith(f"{identity}  run of ")
    assert "driver: 580.65.06" in text
    assert json.loads(run("show", identity, "--json"))["result"]["record"]["id"] == identity
    with pytest.raises(UsageError, match="4 results; give an id"):
        run("show", "new")


def test_tags_name_results_and_keep_them(run: Run, store: list[StoredResult]) -> None:
    first, second = (one.record.id for one in store[:2])
    assert run("tag", first, second, "base") == "2 results have the tag base\n"
    assert run("tag", "driver=590", "base2") == "4 results have the tag base2\n"
    assert run("list", "--tag", "base").startswith("2 results")
    for bad in ("a,b", "a=b", "a:b", " a"):
        with pytest.raises(UsageError, match="a tag cannot contain a comma"):
            run("tag", first, bad)
    with pytest.raises(UsageError, match="a result's id begins so"):
        run("tag", second, first[:5])
    # Old results that somebody has named stay.
    assert run("prune", "--older", "1d") == (
        "2 results were deleted; 6 older ones have tags and stay\n"
    )
    assert run("delete", "base").startswith("2 results were deleted: ")
    assert run("list").startswith("4 results")
    with pytest.raises(UsageError, match=r"bas: no result has that id or tag \(did you mean base2"):
        run("delete", "bas")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("word", ["/tmp/x.json", "x.jsonl", "some/where"])
def test_a_file_that_export_is_to_write_is_told_how_to_write_it(run: Run, word: str) -> None:
    with pytest.raises(UsageError, match=rf"{word}: export prints .* results export > {word}$"):
        run("export", word)


@pytest.mark.usefixtures("store")
def test_two_sides_are_compared(run: Run) -> None:
    text = run("compare", "driver=580", "new")
    assert text.startswith(
        "A: driver=580\nB: new\n1 workload on both sides, cuda:0, each 4 runs in 4 sessions\n"
    )
    assert "slower" in text
    assert "0.83x" in text or "0.833x" in text or "0.834x" in text
    assert "driver 580.65.06 → 590.1" in " ".join(text.split())
    found = json.loads(run("compare", "driver=580", "new", "--json"))["compared"]
    assert found["questions"][0]["answer"]["verdict"] == "slower"
    for words, said in (
        (("driver=580", "before:7d"), "in both A and B"),
        (("driver=580", "box=beta"), "box=beta: no match; there are results of box=alpha$"),
        (("driver=9", "new"), "driver=9: no match; see results list"),
        (("alpha", "new"), "alpha: no result has that id or tag; for the results of that machine,"),
        (("host=alpha", "new"), "host=alpha: give an id, a tag, box="),
        (("drivers=580", "new"), "drivers=580: give an id"),
    ):
        with pytest.raises(UsageError, match=said):
            run("compare", *words)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_two_sides_without_a_common_workload_are_exit_code_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    ones = [kept(0, parameters={"n": 64}), kept(10, parameters={"n": 128})]
    with Database(store_path(), writing=True) as database:
        database.add(ones)
    words = ("results", "compare", *(one.record.id for one in ones), *options)
    assert parse(words).carry_out() == 1
    assert options or "no workload with the same settings" in capsys.readouterr().out


def test_results_of_two_machines_are_compared_and_the_command_for_all_of_them_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    results = [kept(0, facts={"box": "gpu1"}), kept(10, facts={"box": "ada@gpu2:22"})]
    with Database(store_path(), writing=True) as database:
        database.add(results)
    by_id = " ".join(run("compare", *(result.record.id for result in results)).split())
    assert "run there, or here with --host gpu1 or --host ada@gpu2:22: gpu-workbench run" in by_id
    command = "gpu-workbench results compare box=gpu1 box=ada@gpu2:22"
    assert by_id.endswith(f"A and B are of two machines; to compare all their results: {command}")
    by_box = run("compare", "box=gpu1", "box=ada@gpu2:22")
    assert "1 workload on both sides" in by_box
    assert "two machines" not in by_box


@pytest.mark.usefixtures("store")
def test_what_goes_out_comes_in_elsewhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "f.jsonl"
    place.write_text(run("export", "new", "--redact"))
    assert "alpha" not in place.read_text()
    assert run("export", "--markdown", "driver=590").count("| matmul n=4096 |") == 1
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "other"))
    assert run("import", str(place)) == f"{place}: 4 results were imported\n"
    assert run("import", str(place)).endswith("0 results were imported, 4 were stored already\n")
    assert run("list", "--tag", "new").startswith("4 results, machine host")
    missing = tmp_path / "none"
    assert f"{missing}: does not exist" in run("import", str(missing), code=1)


@pytest.mark.usefixtures("store")
def test_a_damaged_store_is_one_line_for_every_command(run: Run) -> None:
    store_path().write_bytes(b"no database, and long enough not to be taken for an empty one" * 20)
    for words in ([], ["show", "new"], ["delete", "new"], ["export"], ["compare", "a", "b"]):
        told = run(*words, code=1)
        assert told.count("\n") == 1
        assert "it is damaged; move it away" in told
