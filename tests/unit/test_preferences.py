"""What is remembered: what the user changed in the workbench, and nothing that a flag said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.screens.helpers import CATALOGUE, gpu, hello, make_store, sample, uuid, workload
from tui.app.preferences import Preferences
from tui.core.borders import Borders
from tui.core.settings import choose, read
from tui.devices.state.machine import DeviceSelected
from tui.hosts.events import HostsNamed
from tui.runs.state.events import CatalogueRead, HostRunEvent, ParametersSet
from tui.runs.state.parameters import replace_invalid
from tui.runs.state.state import WorkbenchState
from workloads.protocol.results import Setting

MATMUL: dict[str, Setting] = {"size": 4096, "dtype": "float32"}


def logged(state: WorkbenchState) -> list[str]:
    return [line.text for line in state.log.lines]


def preferences(place: Path, text: str | None = None, **flags: Setting) -> Preferences:
    if text is not None:
        place.write_text(text, encoding="utf-8")
    file = read(place)
    chosen, problems = choose(file, {}, flags)
    return Preferences(chosen, (*file.problems, *problems))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_parameters_of_the_file_are_taken_where_they_are_allowed(place: Path) -> None:
    home = make_store("one gpu")
    text = '[parameters.matmul]\nsize = 8192\ndtype = "int4"\nwidth = 1\n'
    preferences(place, text).attach(home)
    assert home.runs.parameters["matmul"] == {"size": 8192, "dtype": "float32"}
    bad, unknown = logged(home)
    assert bad == (
        f"{place}: [parameters.matmul] dtype: int4 is not allowed; float32, bfloat16, float16; "
        "it is left out"
    )
    assert "no parameter width; it has size, dtype" in unknown


def test_workloads_that_are_known_later_get_theirs_then(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place, "[parameters.mine]\nsize = 64\n")
    known.attach(home)
    home.publish(CatalogueRead((*home.runs.catalogue, workload("mine"))))
    assert home.runs.parameters["mine"]["size"] == 64
    assert known.changes(home, known.theme, known.refresh) == ({}, {})


def test_nothing_changed_is_nothing_written(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place, theme="textual-light", refresh=5.0, device="cpu")
    known.attach(home)
    known.remember(home, known.theme, known.refresh)
    assert not place.exists()
    assert known.problems == []


def test_what_the_user_changed_is_written_and_nothing_else(place: Path) -> None:
    home = make_store("two gpus")
    known = preferences(place, "# mine\nrefresh = 2\n", theme="nord")
    known.attach(home)
    home.publish(DeviceSelected(uuid(1)))
    home.publish(ParametersSet("matmul", {**MATMUL, "size": 512}))
    known.remember(home, "nord", 5.0)
    actual = read(place)
    assert {name: value for name, (value, _) in actual.values.items()} == {
        "refresh": 5.0,
        "device": uuid(1),
    }
    assert actual.parameters == {"matmul": {"size": 512}}
    assert place.read_text().startswith("# mine\n")


def test_parameters_that_are_the_defaults_again_leave_the_file(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place, "[parameters.matmul]\nsize = 512\n")
    known.attach(home)
    home.publish(ParametersSet("matmul", dict(MATMUL)))
    known.remember(home, known.theme, known.refresh)
    assert read(place).parameters == {}


# ---- other hosts -------------------------------------------------------------------------------


def _set_on(host: str, size: int) -> HostRunEvent:
    return HostRunEvent(host, ParametersSet("matmul", {**MATMUL, "size": size}))


def test_what_was_set_on_a_host_is_remembered_for_all_machines(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place)
    known.attach(home)
    home.publish(HostsNamed(("gpu1", "gpu2"), here=True))
    home.publish(_set_on("gpu1", 512))
    known.remember(home, known.theme, known.refresh)
    assert read(place).parameters == {"matmul": {"size": 512}}
    again = make_store("one gpu")
    preferences(place).attach(again)
    again.publish(HostsNamed(("gpu1", "gpu2"), here=True))
    sizes = [item.parameters["matmul"]["size"] for item in again.runs.everywhere]
    assert sizes == [512, 512, 512]


@pytest.mark.parametrize(("order", "remembered"), [("here gpu1", 1024), ("gpu1 here", 256)])
def test_of_several_machines_the_values_that_were_set_last_count(
    place: Path, order: str, remembered: int
) -> None:
    home = make_store("one gpu")
    known = preferences(place)
    known.attach(home)
    home.publish(HostsNamed(("gpu1",), here=True))
    for name in order.split():
        on_host = _set_on("gpu1", 1024)
        home.publish(
            on_host if name == "gpu1" else ParametersSet("matmul", {**MATMUL, "size": 256})
        )
    known.remember(home, known.theme, known.refresh)
    assert read(place).parameters == {"matmul": {"size": remembered}}


def test_a_workload_that_only_a_host_lists_gets_the_values_of_the_file(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place, "[parameters.mine]\nsize = 64\n[parameters.matmul]\nsize = 512\n")
    known.attach(home)
    home.publish(HostsNamed(("gpu1", "gpu2"), here=False))
    home.publish(_set_on("gpu1", 1024))
    for name in ("gpu1", "gpu2"):
        home.publish(HostRunEvent(name, hello(*CATALOGUE, workload("mine"))))
    first, second = home.runs.of_hosts.values()
    assert [item.parameters["mine"]["size"] for item in (first, second)] == [64, 64]
    # What the user set before the host's runner started stays, and is what is remembered.
    assert [item.parameters["matmul"]["size"] for item in (first, second)] == [1024, 512]
    known.remember(home, known.theme, known.refresh)
    assert read(place).parameters == {"mine": {"size": 64}, "matmul": {"size": 1024}}


def test_readonly_writes_nothing(place: Path) -> None:
    chosen, _ = choose(read(place), {}, {})
    known = Preferences(chosen, write_back=False)
    known.attach(make_store("one gpu"))
    known.remember(make_store("one gpu"), "nord", 5.0)
    assert not place.exists()


def test_a_broken_file_is_logged_and_not_written_over(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place, "refresh = = 2\n")
    known.attach(home)
    assert "line 1" in logged(home)[0]
    known.remember(home, "nord", 1.0)
    assert place.read_text() == "refresh = = 2\n"
    assert "the file is broken; changes are not saved" in known.problems[-1]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    known = preferences(tmp_path / "file" / "config.toml")
    known.problems.clear()
    home = make_store("one gpu")
    known.attach(home)
    known.remember(home, "nord", 1.0)
    assert len(known.problems) == 1
    assert "not saved" in known.problems[0]


# ---- the device --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "selected"), [("cpu", "cpu"), ("cuda:1", uuid(1)), (uuid(1), uuid(1))]
)
def test_the_wanted_device_is_selected_when_it_is_known(
    place: Path, wanted: str, selected: str
) -> None:
    home = make_store("two gpus")
    preferences(place, device=wanted).attach(home)
    home.publish(sample(gpu(0), gpu(1)))
    assert home.machine.selected == selected
    assert not home.machine.selected_by_user
    assert logged(home) == []


def test_the_users_choice_outlives_the_next_sample(place: Path) -> None:
    home = make_store("two gpus")
    preferences(place, device="cpu").attach(home)
    home.publish(DeviceSelected(uuid(1)))
    home.publish(sample(gpu(0), gpu(1)))
    assert home.machine.selected == uuid(1)


def test_a_device_that_is_not_here_is_said_once_with_those_that_are(place: Path) -> None:
    home = make_store("one gpu")
    preferences(place, 'device = "cuda:7"\n').attach(home)
    for _ in range(2):
        home.publish(sample(gpu(0)))
    assert logged(home) == [f"{place}:1: device cuda:7 is not here; there are cuda:0, cpu"]
    assert home.machine.selected == uuid(0)


def test_usable_parameters_are_complete() -> None:
    actual, errors = replace_invalid(workload("matmul"), {"size": 0})
    assert actual == MATMUL
    assert len(errors) == 1


def test_borders_that_were_moved_are_written(place: Path) -> None:
    home = make_store("one gpu")
    known = preferences(place)
    known.attach(home)
    known.remember(home, known.theme, known.refresh, known.borders)
    assert not place.exists()
    known.remember(home, known.theme, known.refresh, Borders(60, 30, 70))
    assert 'borders = "60 30 70"' in place.read_text()
    again = preferences(place)
    assert again.borders == Borders(60, 30, 70)


def test_borders_that_leave_no_column_are_reported(place: Path) -> None:
    known = preferences(place, 'borders = "5 35 75"\n')
    assert known.borders == Borders()
    assert "borders = '5 35 75': must be percent of the width" in " ".join(known.problems)
