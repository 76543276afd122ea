"""What stands where no file is read yet: how to open one, how far it is, why it failed. Pure."""

from __future__ import annotations

from tui.session.snapshot.process import names
from tui.session.snapshot.store import SnapshotStore
from tui.snapshots.reader.messages import Progress
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, Tone, line, paragraph

ABOUT = (
    "o opens a snapshot that torch.cuda.memory._dump_snapshot wrote: a pickle, gzip or JSON of any "
    "torch version. It is read as data, in a process of its own; nothing in it runs and nothing "
    "leaves this machine."
)
RECORD = (
    "To have one: torch.cuda.memory._record_memory_history(max_entries=100000, stacks='python') "
    "before the work, torch.cuda.memory._dump_snapshot('memory.pickle') after it."
)


def start_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """Depending on what the reader does."""
    if store.status == "loading":
        return loading_lines(store, cells)
    rows: list[Line] = []
    if store.reason:
        tone = Tone.BAD if store.status == "failed" else Tone.NOTE
        rows += [*paragraph(store.reason, cells, tone), ()]
    return [*rows, *paragraph(ABOUT, cells), (), *paragraph(RECORD, cells, Tone.QUIET)]


def loading_lines(store: SnapshotStore, cells: int) -> list[Line]:
    """What the reading takes and how far it is."""
    rows = paragraph(names(store.paths), cells, label="reading ")
    if store.estimate is not None:
        rows += paragraph(store.estimate.words, cells, Tone.QUIET)
    rows.append(())
    progress = store.progress
    if progress is None:
        rows.append(line(f"starting the reader {glyphs.GLYPHS.ellipsis}"))
    else:
        rows += [line(progress_words(progress)), bar(progress, cells)]
    rows += [(), line(Span("x", Tone.KEY), " cancels")]
    return rows


def progress_words(progress: Progress) -> str:
    """``reading 54.2 MiB of 184 MiB, 12 s left``."""
    show = text.size if progress.phase == "reading" else text.count
    words = f"{progress.phase} {show(progress.done)}"
    if progress.total:
        words += f" of {show(progress.total)}"
    if progress.phase == "indexing":
        words += " events"
    elif progress.phase == "replaying":
        words += " devices"
    if progress.left_s is not None:
        words += f", {text.duration(progress.left_s)} left"
    return words


def bar(progress: Progress, cells: int) -> Line:
    """How much of the phase is done; nothing where the whole is not known."""
    if not progress.total:
        return ()
    full = min(cells, cells * progress.done // progress.total)
    filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
    return line(Span(filled * full, Tone.ALLOCATED), Span(rest * (cells - full), Tone.REST))
