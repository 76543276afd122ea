"""``gpu-workbench devices``: one sample of this machine's devices, or of several hosts' devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.core.child.runner import query_runner
from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.devices.cli.hosts import HostsOptions, parse_until, print_hosts
from tui.devices.cli.sample import format_figures, format_host, read_sample, sample_json
from tui.devices.host_options import add_hosts
from tui.devices.state.devices import CPU, NVML_UNAVAILABLE, DeviceView, pair
from tui.devices.views.devices import rank_throttle_reasons
from tui.kit.command_line.options import Parser, Subcommand, add_output, add_python
from tui.kit.command_line.output import UsageError, fit_to_terminal, print_json, print_text
from tui.kit.command_line.progress import run_to_exit
from tui.kit.command_line.values import parse_duration, python_to_use
from tui.monitor.messages import Sample
from workloads.protocol import messages
from workloads.protocol.results import TorchDevice

if TYPE_CHECKING:
    from tui.core.settings import Value


@dataclass(frozen=True, slots=True)
class DevicesOptions(HostsOptions):
    """The hosts, the Python whose torch names the devices, and the output format."""

    overrides: Mapping[str, Value] = field(default_factory=dict)


def devices(options: DevicesOptions) -> int:
    """Print one sample, or the devices of several hosts; return the exit code.

    Raises:
        UsageError: the options contradict each other.
    """
    if options.json and options.jsonl:
        raise UsageError("--json and --jsonl: give one of them")
    if options.names_hosts or options.lasts:
        return run_to_exit(print_hosts(options))
    python = python_to_use(options.overrides).path

    async def print_sample() -> int:
        sample = await read_sample()
        reason = "no NVML device to pair it with"
        torch_devices: tuple[TorchDevice, ...] = ()
        # Torch may see devices without NVML; without any driver there are none.
        if sample.devices or (sample.driver.error and not sample.driver.missing):
            torch_devices, reason = await query_torch_devices(python)
        sample, views = _pair_with_torch(sample, torch_devices, reason)
        if options.json:
            print_json(sample_json(sample))
        else:
            print_text(fit_to_terminal(as_text(sample, views)))
        return 0

    return run_to_exit(print_sample())


async def query_torch_devices(python: str) -> tuple[tuple[TorchDevice, ...], str]:
    """Return the devices that a Python's torch sees, or none and the reason."""
    answer = await query_runner(python)
    if isinstance(answer, messages.Unusable):
        return (), answer.reason
    return answer.environment.devices, answer.environment.unavailable.get("devices", "")


def _pair_with_torch(
    sample: Sample, torch_devices: tuple[TorchDevice, ...], reason: str
) -> tuple[Sample, tuple[DeviceView, ...]]:
    no_nvml = NVML_UNAVAILABLE if sample.driver.error else ""
    views = pair(sample.devices, torch_devices, no_nvml=no_nvml)
    named = []
    for view in views:
        if view.nvml is not None:
            absent = dict(view.nvml.unavailable)
            if view.torch is None:
                absent["torch"] = view.unpaired or reason
            named.append(replace(view.nvml, torch=view.torch, unavailable=absent))
    return replace(sample, devices=tuple(named)), views


def as_text(sample: Sample, views: tuple[DeviceView, ...]) -> str:
    """Return one line per device, with the host last."""
    lines = []
    driver = sample.driver
    if driver.error:
        lines.append(driver.error)
    elif driver.version:
        lines.append(f"driver {driver.version}  CUDA {driver.cuda or 'n/a'}")
    gpus = [view for view in views if view.key != CPU]
    lines += [_gpu_line(view, _column_widths(gpus)) for view in gpus]
    lines.append(f"{CPU:<9} {format_host(sample.host)}")
    return rows_of_text(lines)


def _column_widths(gpus: Sequence[DeviceView]) -> list[int]:
    """Return the letters of the name and of each figure, so that columns align."""
    read = [view.nvml for view in gpus if view.nvml is not None and view.nvml.lost is None]
    rows = [[device.name, *format_figures(device)] for device in read]
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _gpu_line(view: DeviceView, widths: Sequence[int]) -> str:
    label, device = view.label, view.nvml
    if device is None:
        total = view.torch_device.total_memory if view.torch_device else None
        return f"{label:<9} {view.name}  total {fmt.size(total)}  n/a: {view.unpaired}"
    if device.lost is not None:
        return f"{label:<9} {device.name}  lost: {device.lost}"
    cells = zip(format_figures(device), widths[1:], strict=True)
    parts = [f"{label:<9} {device.name:<{widths[0]}}", *(text.rjust(size) for text, size in cells)]
    return "  ".join([*parts, ", ".join(rank_throttle_reasons(device))]).rstrip()


def _add_options(parser: Parser) -> None:
    add_python(parser)
    add_output(parser)
    add_hosts(parser)
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON object per sample, until stopped"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=parse_duration,
        metavar="TIME",
        help="watch for this long, such as 90s, 5m or 1h",
    )
    parser.add_argument(
        "--until",
        type=parse_until,
        metavar="'free SIZE'",
        help="exit once an idle GPU has this much memory free, such as 'free 20G'",
    )


SUBCOMMAND = Subcommand(DevicesOptions, _add_options, devices)
