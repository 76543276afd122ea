"""``python -m tests.simulated_gpu [--devices N …] COMMAND …`` runs a command on simulated GPUs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.simulated_gpu import libraries as simulated
from tui.rehearsal.device.installation import CannotSimulateError
from tui.rehearsal.device.settings import DeviceSettings, state_folder
from workloads.protocol.wire import field_values


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulated_gpu", description=__doc__)
    for name, value in field_values(DeviceSettings()).items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=type(value), default=value, metavar=type(value).__name__)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def main() -> int:
    chosen = vars(_parser().parse_args())
    command = chosen.pop("command")
    try:
        libraries = simulated.libraries()
    except CannotSimulateError as error:
        print(f"no simulated GPU: {error}", file=sys.stderr)
        return 2
    if libraries is None:
        print(
            "no simulated GPU: it needs torch's CUDA build without the nvidia-* packages, in an "
            "environment of its own (.ci/run makes one)",
            file=sys.stderr,
        )
        return 2
    if not command:
        print(libraries)
        return 0
    with tempfile.TemporaryDirectory(dir=state_folder()) as folder:
        env = simulated.environment(libraries, DeviceSettings(**chosen), Path(folder) / "state")
        path = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
        return subprocess.run(command, env={**env, "PATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
