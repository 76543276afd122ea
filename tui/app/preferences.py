"""The settings of one run of the workbench, and the user's changes to them. No Textual.

Only settings that were changed in the workbench are written back: a value from the command line
or the environment applies to one start and does not become permanent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tui.core import settings
from tui.core.borders import Borders, parse_borders
from tui.core.events import LogLine, Topic, Topics
from tui.runs.state.events import HostRunEvent, ParametersSet
from tui.runs.state.parameters import find_changed, replace_invalid
from tui.runs.state.state import RunsState, WorkbenchState
from workloads.protocol import messages
from workloads.protocol.results import Setting, WorkloadInfo


class Preferences:
    """Settings from their sources, applied to a session and written back at its end.

    Args:
        chosen: the settings.
        problems: errors in their sources, one line each.
        write_back: write the user's changes back.
    """

    def __init__(
        self, chosen: settings.Settings, problems: Sequence[str] = (), *, write_back: bool = True
    ) -> None:
        self.problems = list(problems)
        """Problems, including those found later; shown in the log, and on stderr after the end."""
        self.warn: Callable[[str], None] = lambda _problem: None
        """Shows a problem that is found later."""
        self.theme = str(chosen.value("theme"))
        self.refresh = float(chosen.value("refresh"))
        self.borders = parse_borders(str(chosen.value("borders")))
        self._chosen = chosen
        self._writes_back = write_back
        self._began_with: dict[str, dict[str, Setting]] = {}
        """Parameters of the workloads after the settings file was applied."""
        self._set_last: dict[str, str] = {}
        """Host on which the user last set the parameters of a workload; empty for this machine."""
        self._set: set[tuple[str, str]] = set()
        """Host and workload whose parameters the user has set."""
        self._is_applying = False
        self._device_seen = False

    # ---- at the start ----

    def attach(self, state: WorkbenchState) -> None:
        """Apply the settings to the state of a session, and log problems there."""
        self._state = state
        state.machine.requested_device = str(self._chosen.value("device") or "")
        for problem in self.problems:
            state.publish(LogLine("workbench", problem, "warning"))
        self._apply_parameters()
        state.bus.on_change(self._follow)
        state.bus.subscribe(ParametersSet, self._on_set)
        state.bus.subscribe(HostRunEvent, self._on_host_run)

    def _follow(self, topics: Topics) -> None:
        """Apply settings of workloads and devices that become known after the start."""
        if Topic.WORKLOADS in topics and any(
            info.name not in self._began_with for info in self._state.runs.catalogue
        ):
            self._apply_parameters()
        if Topic.DEVICES in topics and not self._device_seen:
            self._check_device()

    def _log_problem(self, problem: str) -> None:
        self.problems.append(problem)
        self._state.publish(LogLine("workbench", problem, "warning"))
        self.warn(problem)

    def _on_set(self, event: ParametersSet, host: str = "") -> None:
        if not self._is_applying:
            self._set_last[event.workload] = host
            self._set.add((host, event.workload))

    def _on_host_run(self, event: HostRunEvent) -> None:
        """Note the user's settings on a host, and apply the file to the workloads listed there."""
        if isinstance(event.event, ParametersSet):
            self._on_set(event.event, event.host)
        elif isinstance(event.event, messages.Hello):
            for info in self._state.runs.of_hosts[event.host].catalogue:
                self._apply_to_host(info, event.host)

    def _apply_parameters(self) -> None:
        for info in self._state.runs.catalogue:
            if info.name not in self._began_with:
                parameters = self._read_parameters(info)
                if info.name in self._chosen.file.parameters:
                    self._publish(ParametersSet(info.name, parameters))
                for host in self._state.runs.of_hosts:
                    self._apply_to_host(info, host)

    def _apply_to_host(self, info: WorkloadInfo, host: str) -> None:
        parameters = self._began_with.get(info.name)
        if parameters is None:
            parameters = self._read_parameters(info)
        if info.name in self._chosen.file.parameters and (host, info.name) not in self._set:
            self._publish(HostRunEvent(host, ParametersSet(info.name, parameters)))

    def _read_parameters(self, info: WorkloadInfo) -> dict[str, Setting]:
        """Return a workload's parameters according to the file, and log its invalid values."""
        parameters, errors = replace_invalid(info, self._chosen.file.parameters.get(info.name, {}))
        self._began_with[info.name] = parameters
        for error in errors:
            table = f"{settings.PARAMETERS}.{info.name}"
            self._log_problem(f"{self._chosen.file.path}: [{table}] {error}; it is left out")
        return parameters

    def _publish(self, event: ParametersSet | HostRunEvent) -> None:
        self._is_applying = True
        try:
            self._state.publish(event)
        finally:
            self._is_applying = False

    def _check_device(self) -> None:
        """Report a chosen device that is missing, once all devices are known."""
        machine = self._state.machine
        setting = self._chosen.chosen["device"]
        if machine.environment is None or machine.sample is None:
            return
        self._device_seen = True
        if setting.value and machine.find_device(str(setting.value)) is None:
            present = ", ".join(view.torch or view.key for view in machine.devices)
            self._log_problem(
                f"{setting.source}: device {setting.value} is not here; there are {present}"
            )

    # ---- at the end ----

    def changes(
        self, state: WorkbenchState, theme: str, refresh: float, borders: Borders | None = None
    ) -> tuple[dict[str, settings.Value], dict[str, dict[str, Setting]]]:
        """Return the settings that differ from those at the start of the run.

        Args:
            state: holds the parameters and the selected device. Of a workload whose parameters
                differ from host to host, those that the user set last count.
            theme: the current theme.
            refresh: the current seconds between two samples.
            borders: the current borders between columns; ``None`` for the initial ones.

        Returns:
            Values by name; and, by workload, the parameters that differ from their defaults.
        """
        values: dict[str, settings.Value] = {}
        if theme != self.theme:
            values["theme"] = theme
        if refresh != self.refresh:
            values["refresh"] = refresh
        if borders is not None and borders != self.borders:
            values["borders"] = str(borders)
        if state.machine.selected_by_user and state.machine.selected != self._chosen.value(
            "device"
        ):
            values["device"] = state.machine.selected
        parameters: dict[str, dict[str, Setting]] = {}
        for name in dict.fromkeys(
            workload.name for runs in state.runs.everywhere for workload in runs.catalogue
        ):
            runs = self._find_newest(state, name)
            info = runs.find_workload(name)
            if info is not None and runs.parameters[name] != self._began_with.get(name):
                parameters[name] = find_changed(info, runs.parameters[name])
        return values, parameters

    def _find_newest(self, state: WorkbenchState, workload: str) -> RunsState:
        """Return the runs on the machine where the user last set the parameters of a workload."""
        return state.runs.of_hosts.get(self._set_last.get(workload, ""), state.runs)

    def remember_theme(self, theme: str) -> str:
        """Write a theme into the file at once.

        Returns:
            Why it was not written; empty if it was, or if nothing is to be written.
        """
        if not self._writes_back or theme == self.theme:
            return ""
        problem = self._write({"theme": theme}, {}, "the theme is not saved")
        if not problem:
            self.theme = theme
        return problem

    def remember(
        self, state: WorkbenchState, theme: str, refresh: float, borders: Borders | None = None
    ) -> None:
        """Write the changes into the file; if that fails, add a line to ``problems``."""
        values, parameters = self.changes(state, theme, refresh, borders)
        if not self._writes_back or not (values or parameters):
            return
        problem = self._write(values, parameters, "changes are not saved")
        if problem:
            self.problems.append(problem)

    def _write(
        self,
        values: Mapping[str, settings.Value],
        parameters: Mapping[str, Mapping[str, Setting]],
        consequence: str,
    ) -> str:
        """Write changes into the file; return why that failed, or an empty string.

        Args:
            values: new settings by name.
            parameters: by workload.
            consequence: of a failure, in words.
        """
        path = self._chosen.file.path
        if not self._chosen.file.writable:
            return f"{path}: the file is broken; {consequence}"
        try:
            settings.remember(path, values, parameters)
        except (OSError, ValueError) as error:
            return f"{consequence}: {error}"
        return ""
