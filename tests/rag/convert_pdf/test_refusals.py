"""What cannot be read is refused with its reason, and never an empty document."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from haiku.rag import exceptions

Convert = Callable[[Path], Any]


def test_a_password_is_named(pdf: Callable[[str], Path], convert: Convert) -> None:
    with pytest.raises(exceptions.DocumentEncrypted, match=r"encrypted\.pdf .* password"):
        convert(pdf("encrypted"))


def test_the_right_password_opens(pdf: Callable[[str], Path]) -> None:
    from docling.datamodel.base_models import InputFormat
    from docling.document_converter import DocumentConverter

    from haiku.rag.convert.pdf import pdf_format_option

    options = {InputFormat.PDF: pdf_format_option(password="user")}
    converter = DocumentConverter(allowed_formats=[InputFormat.PDF], format_options=options)
    assert converter.convert(pdf("encrypted")).document.texts[0].text == "secret words"


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_truncated_file_is_corrupt(
    share: float, pdf: Callable[[str], Path], convert: Convert, tmp_path: Path
) -> None:
    content = pdf("headings").read_bytes()
    path = tmp_path / "cut.pdf"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(exceptions.DocumentCorrupt, match=r"cut\.pdf"):
        convert(path)


def test_another_type_of_file_is_corrupt(convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    path.write_bytes(b"%PDF-1.7\n" + b"<html>not a pdf</html>" * 50)
    with pytest.raises(exceptions.DocumentCorrupt):
        convert(path)


def test_a_stream_reads_like_a_file(pdf: Callable[[str], Path], convert: Convert) -> None:
    from io import BytesIO

    from docling.datamodel.base_models import DocumentStream

    path = pdf("lists")
    stream = DocumentStream(name="lists.pdf", stream=BytesIO(path.read_bytes()))
    assert convert(stream).export_to_markdown() == convert(path).export_to_markdown()
