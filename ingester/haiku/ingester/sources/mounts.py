"""What kind of filesystem a folder is on: network filesystems and FUSE do not report changes."""

from __future__ import annotations

import os
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

#: Filesystem types whose changes, made elsewhere, inotify does not see.
NETWORK_TYPES = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse",
        "fuseblk",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    }
)


def network_type(path: str, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the filesystem under `path` when changes on it must be polled for, else None.

    The format of the file is described in proc_pid_mountinfo(5).
    """
    try:
        text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None  # no such file on this system: take it for local
    kind = _type_of(os.path.realpath(path), text)
    return kind if kind in NETWORK_TYPES or kind.startswith("fuse.") else None


def _type_of(path: str, text: str) -> str:
    """The type of the mount with the longest prefix of `path`; the last of equals hides others."""
    longest, kind = -1, ""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescape(fields[4])
        if _is_below(path, point) and len(point) >= longest:
            longest, kind = len(point), after.split(" ")[0]
    return kind


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")


def _unescape(field: str) -> str:
    """mountinfo writes space, tab, newline and backslash as octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
