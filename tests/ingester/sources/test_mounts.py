"""Which filesystems must be polled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from haiku.ingester.sources.mounts import network_type

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = r"""
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:40 / /mnt/share rw,relatime shared:9 - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /mnt/with\040space rw - cifs //server/share rw
32 22 0:42 / /mnt/share/local rw - tmpfs tmpfs rw
33 22 0:43 / /mnt/fuse rw master:3 - fuse.sshfs user@host: rw
34 22 0:44 / /mnt/over rw - nfs server:/x rw
35 22 0:45 / /mnt/over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/a/b", "nfs4"),
        ("/mnt/sharex", None),
        ("/mnt/share/local/x", None),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/fuse/x", "fuse.sshfs"),
        ("/mnt/over/x", None),
    ],
)
def test_type_of_the_deepest_mount(tmp_path: Path, path: str, kind: str | None) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS)
    assert network_type(path, mountinfo) == kind


def test_system_without_the_file(tmp_path: Path) -> None:
    assert network_type("/x", tmp_path / "none") is None


def test_this_machine_answers(tmp_path: Path) -> None:
    assert network_type(str(tmp_path)) in (None, "9p", "virtiofs", "fuse.gvfsd", "nfs4")
