"""Everything that is known of one workload: what it is, and each device's figures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.state import parameters
from tui.state.runs import RunState
from tui.state.store import Store
from tui.state.sweep import Sweep
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, Tone, line, paragraph, verbatim, wrap
from tui.ui.views.workload_state import other_flags, progress_words, warnings_of
from tui.ui.views.workload_table import CHANGED, devices
from workloads.protocol.inventory import Setting, WorkloadInfo

# What draws results, charts and sweeps is imported where there is one: at the start there is none.
if TYPE_CHECKING:
    from tui.state.sweep_result import Swept


def find(store: Store, workload: str | None) -> WorkloadInfo | None:
    """The workload of that name."""
    return next((info for info in store.catalogue if info.name == workload), None)


def detail_lines(store: Store, workload: str | None, cells: int) -> list[Line]:
    """All of it, for a pane ``cells`` wide."""
    info = find(store, workload)
    if info is None:
        return [line(Span("no workload is selected", Tone.QUIET))]
    rows = paragraph(f"{info.name}: {info.title}", cells, Tone.STRONG)
    rows += [*paragraph(info.about, cells), ()]
    rows += [*paragraph(info.look_for, cells, label="Look for: "), ()]
    if info.needs:
        rows += [*paragraph(", ".join(info.needs), cells, label="Needs: "), ()]
    rows += [*parameter_lines(store, info, cells), *code_lines(info, cells)]
    return rows + outcome_lines(store, info, cells)


def outcome_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """What came of it on each device, or of its sweep."""
    rows: list[Line] = []
    names = devices(store)
    found = None
    if info.name in store.sweeps:
        from tui.state.sweep_result import swept
        from tui.ui.views.sweep import sweep_lines

        found = swept(store, info.name, names)
        assert found is not None
        rows += [(), *sweep_lines(found, store.sweeps[info.name], cells)]
    rows += skipped_lines(store, info, cells)
    for device in names:
        rows += [(), *device_lines(store, info, device, cells, found)]
    return rows


def skipped_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """Why a run leaves the selected GPU out, where torch does not see it."""
    gpu = store.gpu_column
    if gpu is None or gpu.torch or not gpu.unpaired or "cuda" not in info.devices:
        return []
    words = f"{gpu.label} {gpu.name} is skipped: {gpu.unpaired}"
    return [(), *paragraph(words, cells, Tone.NOTE, indent="  ")]


def present_settings(store: Store, info: WorkloadInfo) -> dict[str, Setting]:
    """What the table runs the workload with; swept parameters as they were typed."""
    sweep = store.sweeps.get(info.name)
    if sweep is not None:
        return {**sweep.points[0], **sweep.texts}
    return {**parameters.defaults(info), **store.parameters.get(info.name, {})}


def parameter_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """Each parameter with its value, what it is and what it may be set to."""
    if not info.parameters:
        return [line(Span("no parameters", Tone.QUIET)), ()]
    present = present_settings(store, info)
    changed = parameters.changed(info, present)
    how = "  = edits, there F5 puts the defaults back" if changed else "  = edits"
    rows: list[Line] = [line(Span("Parameters", Tone.STRONG), Span(how, Tone.QUIET))]
    for parameter in info.parameters:
        value = parameters.text_of(present[parameter.name])
        words = f"{parameter.name} = {value}"
        lead = Span("  ")
        if parameter.name in changed:
            words += f" (default {parameters.text_of(parameter.default)})"
            lead = Span(f"{CHANGED} ", Tone.NOTE)
        words += f": {parameter.about} ({parameters.allowed(parameter)})"
        found = paragraph(words, cells - 2, indent="    ")
        rows += [line(lead if row is found[0] else "  ", *row) for row in found]
    return [*rows, ()]


def code_lines(info: WorkloadInfo, cells: int) -> list[Line]:
    """The lines that are timed, as they stand in the source."""
    rows = [line(Span("What is timed", Tone.STRONG))]
    for source in info.code.splitlines():
        rows += verbatim(source, cells, Tone.KEY)
    return rows


def device_lines(
    store: Store, info: WorkloadInfo, device: str, cells: int, found: Swept | None = None
) -> list[Line]:
    """The run on one device, whatever its state; of a sweep the one that ended last."""
    if found is not None:
        run, which = _last_of_sweep(store.sweeps[info.name], found, device)
    else:
        run = store.latest_run(info.name, device)
        which = "a quick run of the demo" if run is not None and run.demo else ""
    title = line(Span(f"{glyphs.GLYPHS.rule * 2} {device} ", Tone.STRONG), Span(which, Tone.QUIET))
    if device.partition(":")[0] not in info.devices:
        kinds = ", ".join(info.devices)
        return [title, *paragraph(f"does not run here: it is made for {kinds}", cells, Tone.QUIET)]
    if run is None and found is not None:
        return [title, *paragraph("no run of the sweep has ended", cells, Tone.QUIET)]
    if run is None:
        return [title, *paragraph("not run with these parameters", cells, Tone.QUIET)]
    return [title, *_run_lines(store, run, cells)]


def _last_of_sweep(sweep: Sweep, found: Swept, device: str) -> tuple[RunState | None, str]:
    from tui.state.sweep_curves import settings_text
    from tui.ui.views.sweep import latest_of

    run = latest_of(found, device)
    if run is None:
        return None, ""
    return run, f"last of the sweep: {settings_text(sweep, run.request.parameters)}"


def _run_lines(store: Store, run: RunState, cells: int) -> list[Line]:
    from tui.ui.views.detail_result import condition_lines, result_lines

    if run.result is None:
        if run.progress is None:
            return [line(Span("queued", Tone.QUIET))]
        words = progress_words(run.progress)
        if run.so_far is not None:
            doing = "the time is taken; its study goes on" if words == "figures" else words
            return result_lines(run.so_far, run.so_far.warnings, cells, doing)
        estimate = run.progress.estimate_s
        if estimate is not None:
            words += f", {text.seconds(estimate, run.progress.half_width or 0.1)} so far"
        return paragraph(words, cells, Tone.KEY)
    return [
        *flag_lines(store, run, cells),
        *result_lines(run.result, warnings_of(run), cells),
        *condition_lines(run.conditions, cells),
    ]


def flag_lines(store: Store, run: RunState, cells: int) -> list[Line]:
    """The flags it ran under, where they are not the present ones."""
    changed = other_flags(store, run)
    if not changed:
        return []
    words = ", ".join(
        f"{name} was {'on' if run.request.flags[name] else 'off'}" for name in changed
    )
    return paragraph(f"ran with other flags: {words}", cells, Tone.NOTE, indent="  ")


def copy_text(store: Store, workload: str | None, cells: int = 100) -> str:
    """The detail as plain text for the clipboard, with what the figures depend on."""
    rows = ["".join(span.text for span in row) for row in detail_lines(store, workload, cells)]
    return "\n".join([*rows, "", *conditions(store, cells)]) + "\n"


def conditions(store: Store, cells: int) -> list[str]:
    """Host, driver, torch and threads in words."""
    known: list[tuple[str, object]] = []
    if store.sample:
        known += [("host", store.sample.host.name), ("driver", store.sample.driver.version)]
    if found := store.environment:
        known += [("python", found.python), ("torch", found.torch), ("CUDA", found.cuda)]
        known += [("cuDNN", found.cudnn), ("cpu", found.cpu), ("cpus usable", found.cpus_usable)]
        known += [("threads", found.threads), ("malloc", found.malloc), *found.variables.items()]
    words = [f"{name} {text.NA if value is None else value}" for name, value in known]
    return wrap(", ".join(words), cells, indent="  ")
