"""Fonts: weight, slant, pitch and true size.

docling-parse gives the height of a font's character box and often no more than the resource key as
its name. PDFium is asked once for each font that is met, on the page where it is met first.
"""

import ctypes
import re
from typing import Any, NamedTuple

from haiku.rag.convert.pdf import geometry
from haiku.rag.convert.pdf.page import Face

_BOLD = re.compile(
    r"bold|black|heavy|semibold|demi|cmbx|cmb\d|cmssbx|sfbx|ecbx|-bd|extrabd|W[7-9]$", re.I
)
_ITALIC = re.compile(r"italic|oblique|cmti|cmsl|ecti|-it$|-obl", re.I)
_MONO = re.compile(
    r"mono|courier|typewriter|consol|menlo|inconsolata|fixed|nimbusmon|(?:cm|ec|sf|lm)[a-z]*tt\d",
    re.I,
)

#: Flag of a font descriptor (ISO 32000-1, table 123): all glyphs have one width.
_FIXED_PITCH = 1
#: Flag of a font descriptor: slanted.
_SLANTED = 1 << 6
#: Flag of a font descriptor: drawn bold at small sizes.
_FORCE_BOLD = 1 << 18


class Signature(NamedTuple):
    """What tells one font of a document from another."""

    name: str
    key: str
    #: Width of a space over the height of the box; tells re-used resource keys apart.
    proportion: float


class Sample(NamedTuple):
    """A place where a font is seen: a point inside a character, on the shown page."""

    x: float
    y: float
    #: Height of the character box there, in points.
    height: float


class FontTable:
    """The faces of one document, learned as its pages are read."""

    def __init__(self, document: Any | None) -> None:
        """`document` is an open `pypdfium2.PdfDocument`, or None to go by names alone."""
        self._document = document
        self._faces: dict[Signature, Face] = {}

    def __contains__(self, signature: Signature) -> bool:
        return signature in self._faces

    def __getitem__(self, signature: Signature) -> Face:
        return self._faces[signature]

    def learn(self, page_no: int, samples: dict[Signature, Sample]) -> None:
        """Look up the fonts of `samples`, seen on the page `page_no` (from 1)."""
        found = self._ask(page_no, samples) if self._document is not None else {}
        for signature in samples:
            face = found.get(signature) or by_name(signature.name, 0, 1.0)
            self._faces[signature] = face

    def _ask(self, page_no: int, samples: dict[Signature, Sample]) -> dict[Signature, Face]:
        assert self._document is not None
        page = self._document[page_no - 1]
        try:
            text = page.get_textpage()
            try:
                place = _Places(page)
                faces = {key: _look(text, place(at), at) for key, at in samples.items()}
            finally:
                text.close()
        finally:
            page.close()
        return {key: face for key, face in faces.items() if face}


class _Places:
    """Turns points of the shown page into PDFium's page space (unrotated, uncropped)."""

    def __init__(self, page: Any) -> None:
        self._left, self._bottom, right, top = page.get_cropbox()
        self._frame = geometry.Frame(right - self._left, top - self._bottom)
        self._turns = page.get_rotation() // 90 % 4

    def __call__(self, at: Sample) -> tuple[float, float]:
        width, height = self._frame.width, self._frame.height
        x, y = [
            (at.x, height - at.y),
            (at.y, at.x),
            (width - at.x, at.y),
            (width - at.y, height - at.x),
        ][self._turns]
        return self._left + x, self._bottom + y


def _look(text: Any, place: tuple[float, float], at: Sample) -> Face | None:
    """The face of the character at `place`, or None when PDFium sees none there."""
    import pypdfium2.raw as pdfium

    slack = at.height / 2
    index = pdfium.FPDFText_GetCharIndexAtPos(text, *place, slack, slack)
    if index < 0:
        return None
    flags = ctypes.c_int()
    length = pdfium.FPDFText_GetFontInfo(text, index, None, 0, flags)
    if not length:
        return None
    buffer = ctypes.create_string_buffer(length)
    pdfium.FPDFText_GetFontInfo(text, index, buffer, length, flags)
    matrix = pdfium.FS_MATRIX()
    stretch = 1.0
    if pdfium.FPDFText_GetMatrix(text, index, matrix):
        stretch = (matrix.c**2 + matrix.d**2) ** 0.5
    size = pdfium.FPDFText_GetFontSize(text, index) * stretch
    scale = size / at.height if size > 0 and at.height > 0 else 1.0
    name = buffer.value.decode("utf-8", "replace")
    return by_name(name, flags.value, scale if 0.4 < scale < 2.5 else 1.0)


def by_name(name: str, flags: int, scale: float) -> Face:
    """A face from its PostScript name and the flags of its descriptor."""
    name = name.lstrip("/").split("+", 1)[-1]
    return Face(
        name=name,
        bold=bool(_BOLD.search(name)) or bool(flags & _FORCE_BOLD),
        italic=bool(_ITALIC.search(name)) or bool(flags & _SLANTED),
        mono=bool(_MONO.search(name)) or bool(flags & _FIXED_PITCH),
        scale=scale,
    )
