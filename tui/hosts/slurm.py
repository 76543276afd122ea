"""The hosts of the Slurm allocation that this process runs in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from tui.hosts.address import HostAddress, HostError

_SCONTROL_WITHIN_S = 10.0


def slurm_hosts(variables: Mapping[str, str] = os.environ) -> tuple[HostAddress, ...]:
    """Return the hosts of the Slurm allocation that this process runs in, reached with ``srun``.

    Args:
        variables: environment variables.

    Raises:
        HostError: there is no allocation, or Slurm does not name its hosts.
    """
    job, nodes = variables.get("SLURM_JOB_ID"), variables.get("SLURM_JOB_NODELIST")
    if not job or not nodes:
        raise HostError("--slurm: no allocation here (SLURM_JOB_ID is not set): use salloc first")
    try:
        answer = subprocess.run(
            ("scontrol", "show", "hostnames", nodes),
            capture_output=True,
            text=True,
            timeout=_SCONTROL_WITHIN_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"--slurm: scontrol does not name the hosts: {error}") from error
    step = ("srun", "--jobid", job, "-N1", "-n1", "--overlap")
    return tuple(
        HostAddress(name, (*step, "-w", name), login=" ".join((*step, "-w", name, "true")))
        for name in answer.stdout.split()
    )
