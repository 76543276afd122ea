"""Where the store lies: folders for the user alone, read-only places, other people's files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.results.samples import kept
from tests.tiers import with_variants
from tui.core import reports
from tui.results.store import StoreError
from tui.results.store.database import Database

ROOT = Path(__file__).parents[2]
UMASK_OF_A_GROUP = 0o002


@pytest.fixture
def group_umask() -> Iterator[None]:
    before = os.umask(UMASK_OF_A_GROUP)
    yield
    os.umask(before)


def modes_below(top: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in top.rglob("*") if path.is_dir()}


@pytest.mark.usefixtures("group_umask")
def test_each_folder_that_is_made_is_the_user_s_alone(tmp_path: Path) -> None:
    reports.make_private_folder(tmp_path / "state" / "gpu-workbench" / "runs")
    assert modes_below(tmp_path) == {0o700}
    reports.make_private_folder(tmp_path / "state" / "gpu-workbench" / "runs")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        reports.make_private_folder(tmp_path / "file")


@pytest.mark.usefixtures("group_umask")
@pytest.mark.parametrize(
    "command",
    with_variants(
        [["watch", "--no-screen", "--", sys.executable, "-c", ""]], [["watch", "--env"], ["doctor"]]
    ),
    ids=lambda command: " ".join(command[:2]),
)
def test_whichever_command_comes_first(command: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    environment.pop("GPU_WORKBENCH_STATE", None)
    words = [sys.executable, "-m", "tui", *command]
    subprocess.run(words, env=environment, check=False, capture_output=True, timeout=100)
    assert modes_below(tmp_path / "state") <= {0o700}


READS = """
import sys
from pathlib import Path
from tui.results.store.database import Database
with Database(Path(sys.argv[1])) as database:
    rows = database.read_rows()
    print(len(rows), [database.read_result(row).record.workload for row in rows])
"""


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_store_in_a_folder_that_is_read_only_can_be_read(journal: str, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    place = folder / "results.sqlite3"
    with Database(place, writing=True) as database:
        database.add([kept(1), kept(2)])
    with sqlite3.connect(place) as raw:
        raw.execute(f"PRAGMA journal_mode = {journal}")
    raw.close()
    place.chmod(0o444)
    folder.chmod(0o555)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    # Root writes anywhere, unless it gives up what lets it.
    bare = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    prefix = bare if os.geteuid() == 0 else []
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("root may write to any folder here, and there is no setpriv")
    command = [*prefix, sys.executable, "-c", READS, str(place)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    folder.chmod(0o755)
    assert done.stdout == "2 ['matmul', 'matmul']\n", done.stderr


@pytest.mark.parametrize("owner", [0, 0x12345678])
@pytest.mark.parametrize("writing", [True, False])
def test_another_application_s_file_is_refused_and_left_as_it_is(
    owner: int, writing: bool, tmp_path: Path
) -> None:
    place = tmp_path / "results.sqlite3"
    with sqlite3.connect(place) as raw:
        raw.execute("CREATE TABLE recipes (name TEXT)")
        raw.execute(f"PRAGMA application_id = {owner}")
    raw.close()
    before = place.read_bytes()
    with pytest.raises(StoreError, match="belongs to another application"):
        Database(place, writing=writing)
    assert place.read_bytes() == before
