"""Takes out of text what no reader sees and databases refuse.

NUL and the other C0 and C1 controls except tab and line end, lone surrogates, non-characters and
byte order marks go; a form feed, a vertical tab and the separators U+2028 and U+2029 become line
ends; a carriage return becomes a line end. Everything else stays as it is: no normalisation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_DROPPED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def clean_text(text: str) -> str:
    """The text without control characters; see the module's docstring for what becomes what."""
    if text.isascii() and text.isprintable():
        return text
    return _DROPPED.sub("", _BREAKS.sub("\n", text))


def clean_document(document: DoclingDocument) -> None:
    """Clean the text of every item and table cell in place."""
    for item in document.texts:
        item.text = clean_text(item.text)
        item.orig = clean_text(item.orig)
    for table in document.tables:
        for cell in table.data.table_cells:
            cell.text = clean_text(cell.text)
    for group in document.groups:
        group.name = clean_text(group.name)
