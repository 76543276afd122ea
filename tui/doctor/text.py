"""The findings of ``doctor`` as lines of text: equal findings of several GPUs once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tui.core.text.glyphs import rows_of_text
from tui.doctor.checks import CheckResult


def as_text(findings: Sequence[CheckResult]) -> str:
    """Return one line per check, and a second line with advice if there is any."""
    alike: dict[CheckResult, list[CheckResult]] = {}
    for finding in findings:
        alike.setdefault(replace(finding, device="", key=""), []).append(finding)
    lines = []
    for finding, results in alike.items():
        names = format_indices([result.device for result in results if result.device])
        words = f"{names}: {finding.found}" if names else finding.found
        if len(results) == 1 and results[0].key:
            words += f" ({results[0].key})"
        lines.append(f"{finding.outcome:<8} {finding.name:<14} {words}")
        if finding.advice:
            lines.append(f"{'':<23} → {finding.advice}")
    return rows_of_text(lines)


def format_indices(names: list[str]) -> str:
    """Abbreviate names: cuda:0, cuda:1, cuda:2, cuda:3 and cuda:6 become ``cuda:0-3,6``."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, index = name.partition(":")
        kinds.setdefault(kind, []).append(index)
    return ", ".join(
        f"{kind}:{_format_ranges([int(index) for index in found])}"
        if all(index.isdecimal() for index in found)
        else ", ".join(f"{kind}:{index}" if index else kind for index in found)
        for kind, found in kinds.items()
    )


def _format_ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
