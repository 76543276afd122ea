"""Whether a file lies on another machine's disk."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_OF_A_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs|ceph|afs|9p|wekafs|panfs|glusterfs|ocfs2|gfs2"
    r"|fuse\.(?!fuse-overlayfs|rclone-local).*"
)
"""Kinds of file systems that several machines may have mounted."""


def is_on_network(place: Path, mounts: str | None = None) -> bool:
    """Whether several machines may have a file open at once.

    Args:
        place: the file.
        mounts: what there is mounted, as in ``/proc/self/mounts``, which is read where it is not
            given. Where there is no such file, nothing is taken for another machine's.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    above = {str(place.absolute()), *map(str, place.absolute().parents)}
    found, longest = "", -1
    for entry in mounts.splitlines():
        parts = entry.split(" ")
        if len(parts) > 2:
            # A space in a name is written in octal.
            point = parts[1].replace("\\040", " ")
            # Of two at one place the later one is seen.
            if point in above and len(point) >= longest:
                found, longest = parts[2], len(point)
    return _OF_A_NETWORK.fullmatch(found) is not None
