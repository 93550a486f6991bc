"""Looks into zip archives and OLE files: what they hold, whether they are locked, how big they get.

An archive's own directory says what its members unpack to; a member that is larger than it says
is cut off by `zipfile` itself, so checking the directory bounds what any reader may unpack.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING

from haiku.rag.convert import options as opts
from haiku.rag.exceptions import DocumentCorrupt, DocumentEncrypted, SourceTooLarge

if TYPE_CHECKING:
    from pathlib import Path

#: Of an archive with members, and of one without.
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

#: A member every archive of the format has → the format.
_OOXML = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "xl/workbook.bin": "xlsb",
}
#: The `mimetype` member → format; templates read like documents.
_MIMETYPES = {
    "application/epub+zip": "epub",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.text-template": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.spreadsheet-template": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.presentation-template": "odp",
}
#: Names in an OLE directory (UTF-16) → format, in the order they are looked for.
_OLE_STREAMS = (
    ("EncryptedPackage", "encrypted"),
    ("WordDocument", "doc"),
    ("PowerPoint Document", "ppt"),
    ("Workbook", "xls"),
    ("Book", "xls"),
    ("__properties_version1.0", "msg"),
)
#: How far into an OLE file its directory is looked for, bytes.
_OLE_REACH = 64_000_000


def zip_format(path: Path, name: str) -> str | None:
    """The document format of a zip archive; None for an archive that is none.

    Raises:
        DocumentCorrupt: it begins like an archive and has no readable directory.
        DocumentEncrypted: its content is locked by a password or by rights management.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _zip_format(archive, name)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
        raise DocumentCorrupt(
            f"{name} begins like a zip container but cannot be read as one ({error}); "
            "it is truncated or damaged: get a whole copy"
        ) from error


def check_archive(path: Path, name: str, options: opts.ConvertOptions) -> None:
    """Refuse an archive that would unpack to more than the options allow.

    Raises:
        SourceTooLarge: too many members, or too many bytes when unpacked.
        DocumentCorrupt: it packs better than documents do: a bomb; or it has no directory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise DocumentCorrupt(f"{name} cannot be read as a zip container: {error}") from error
    unpacked = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    if len(members) > options.max_members or unpacked > options.max_unpacked:
        raise SourceTooLarge(
            f"{name} unpacks to {unpacked:,} bytes in {len(members):,} members; at most "
            f"{options.max_unpacked:,} bytes in {options.max_members:,} members are read: "
            "raise processing.max_file_size if the file is to be trusted"
        )
    if unpacked > opts.RATIO_FLOOR and unpacked / packed > options.max_ratio:
        raise DocumentCorrupt(
            f"{name} unpacks to {unpacked / packed:,.0f} times its size, {unpacked:,} bytes: "
            "refused as a decompression bomb"
        )


def ole_format(path: Path, name: str) -> str:
    """The format of an OLE compound file: doc, xls, ppt, msg, or "ole" when it is none of them.

    Raises:
        DocumentEncrypted: an Office document under a password.
    """
    with path.open("rb") as file:
        content = file.read(_OLE_REACH)
    found = next((f for s, f in _OLE_STREAMS if s.encode("utf-16-le") in content), "ole")
    if found == "encrypted":
        raise DocumentEncrypted(f"{name} is protected by a password; save a copy without it")
    return found


def read_member(path: Path, member: str, limit: int = 10_000_000) -> bytes | None:
    """A member's bytes, at most `limit`; None when there is no such member or it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            return file.read(limit)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        return None


def _zip_format(archive: zipfile.ZipFile, name: str) -> str | None:
    names = set(archive.namelist())
    if any(member.flag_bits & 0x1 for member in archive.infolist()):
        raise DocumentEncrypted(f"{name} is a zip container locked by a password; unlock it first")
    found = next((format_ for member, format_ in _OOXML.items() if member in names), None)
    if found is None:
        found = _MIMETYPES.get(_mimetype(archive, names))
    if found is None and "META-INF/container.xml" in names:
        found = "epub"
    if found in ("odt", "ods", "odp") and b"encryption-data" in _start(
        archive, "META-INF/manifest.xml"
    ):
        raise DocumentEncrypted(f"{name} is protected by a password; save a copy without it")
    if found == "epub" and _locked_book(archive, names):
        raise DocumentEncrypted(f"{name} is locked by rights management; its text cannot be read")
    return found


def _mimetype(archive: zipfile.ZipFile, names: set[str]) -> str:
    if "mimetype" not in names:
        return ""
    return _start(archive, "mimetype", 200).decode("ascii", "replace").strip()


def _locked_book(archive: zipfile.ZipFile, names: set[str]) -> bool:
    """Rights management, as opposed to the usual obfuscation of fonts, locks (x)html members."""
    if "META-INF/encryption.xml" not in names:
        return False
    listing = _start(archive, "META-INF/encryption.xml")
    return b"html" in listing.partition(b"CipherReference")[2]


def _start(archive: zipfile.ZipFile, member: str, limit: int = 1_000_000) -> bytes:
    """The first bytes of a member, b"" when there is no such member."""
    try:
        with archive.open(member) as file:
            return file.read(limit)
    except KeyError:
        return b""
