"""Outlook messages made by hand: MAPI properties (MS-OXMSG) in a compound file (MS-CFB)."""

import struct

#: A storage's members: a stream's bytes, or another storage's members.
Members = dict[str, "bytes | Members"]

SECTOR, SMALL_SECTOR, CUTOFF = 512, 64, 4096
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
SUBJECT, SENDER_NAME, SENDER_ADDRESS, BODY = 0x0037, 0x0C1A, 0x0C1F, 0x1000
NAME, ADDRESS = 0x3001, 0x3003
#: Bytes before the properties of a message and of one of its recipients.
MESSAGE_HEADER, RECIPIENT_HEADER = 32, 8


def message(subject: str, body: str) -> bytes:
    """A message from Ann to Bob."""
    texts = {
        SUBJECT: subject,
        SENDER_NAME: "Ann",
        SENDER_ADDRESS: "ann@example.org",
        BODY: body,
    }
    recipient = _properties({NAME: "Bob", ADDRESS: "bob@example.org"}, RECIPIENT_HEADER)
    return compound(
        {**_properties(texts, MESSAGE_HEADER), "__recip_version1.0_#00000000": recipient}
    )


def _properties(texts: dict[int, str], header: int) -> Members:
    members: Members = {}
    table = bytes(header)
    for number, text in texts.items():
        raw = text.encode("utf-16-le")
        members[f"__substg1.0_{number:04X}001F"] = raw
        table += struct.pack("<HHIII", 0x001F, number, 6, len(raw) + 2, 0)
    return {**members, "__properties_version1.0": table}


def compound(members: Members) -> bytes:
    """A compound file of the members; its FAT has one sector, so up to 64 kB."""
    return _Compound().whole(members)


class _Compound:
    """One file on its way."""

    def __init__(self) -> None:
        self.sectors: list[bytes] = []
        #: Sector → the next one of its stream.
        self.fat: list[int] = []
        self.small = b""
        self.small_fat: list[int] = []
        self.entries: list[bytes] = []

    def whole(self, members: Members) -> bytes:
        self.entries.append(b"")  # the root's, which is known last
        child = self._storage(members)
        small = self._stream(self.small)
        self.entries[0] = _entry("Root Entry", 5, child, small, len(self.small))
        small_fat = self._stream(struct.pack(f"<{len(self.small_fat)}I", *self.small_fat))
        directory = self._stream(b"".join(self.entries))
        at = len(self.sectors)
        fat = struct.pack("<128I", *[*self.fat, FAT, *[FREE] * (127 - len(self.fat))])
        header = struct.pack(
            "<8s16xHHHHH6xIIIIIIIIII",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            *(0x3E, 3, 0xFFFE, 9, 6),
            *(0, 1, directory, 0, CUTOFF, small_fat, -(-len(self.small_fat) // 128), END, 0, at),
        )
        return header.ljust(SECTOR, b"\xff") + b"".join(self.sectors) + fat

    def _storage(self, members: Members) -> int:
        """Write a storage's members as a chain of siblings; the number of the first."""
        after = FREE
        for name in sorted(members, key=lambda name: (len(name), name.upper()), reverse=True):
            content = members[name]
            if isinstance(content, bytes):
                start = self._small(content) if len(content) < CUTOFF else self._stream(content)
                entry = _entry(name, 2, FREE, start, len(content), after)
            else:
                entry = _entry(name, 1, self._storage(content), 0, 0, after)
            self.entries.append(entry)
            after = len(self.entries) - 1
        return after

    def _stream(self, content: bytes) -> int:
        return _chained(content, SECTOR, self.fat, self.sectors)

    def _small(self, content: bytes) -> int:
        pieces: list[bytes] = []
        start = _chained(content, SMALL_SECTOR, self.small_fat, pieces)
        self.small += b"".join(pieces)
        return start


def _chained(content: bytes, size: int, fat: list[int], sectors: list[bytes]) -> int:
    """Cut into sectors and chain them; the number of the first."""
    if not content:
        return END
    start = len(fat)
    pieces = [content[at : at + size].ljust(size, b"\0") for at in range(0, len(content), size)]
    sectors.extend(pieces)
    fat.extend([*range(start + 1, start + len(pieces)), END])
    return start


def _entry(name: str, kind: int, child: int, start: int, size: int, after: int = FREE) -> bytes:
    raw = (name + "\0").encode("utf-16-le")
    return struct.pack("<64sHBBIII36xIQ", raw, len(raw), kind, 1, FREE, after, child, start, size)
