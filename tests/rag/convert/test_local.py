"""Every format becomes a document with its text and title; bad files fail with a reason."""

import io
import logging
import subprocess
import sys
import zipfile

import pytest
from PIL import Image

from haiku.rag.convert import serialize
from haiku.rag.exceptions import (
    ConvertError,
    DocumentCorrupt,
    DocumentEncrypted,
    SourceTooLarge,
    SourceUnreadable,
    UnsupportedFormat,
)

TITLES = {
    "md": "Oaks",
    "html": "Oak Page",
    "adoc": "Oak Manual",
    "csv": None,
    "txt": None,
    "vtt": None,
    "tex": "Oak Paper",
    "eml": "Oak news",
    "msg": "Oak news",
    "mhtml": "Oaks",
    "nxml": "Oak Study",
    "py": None,
    "odt": "Open Trees",
    "ods": "Open Trees",
    "odp": "Open Trees",
    "docx": "Annual Plan",
    "pptx": "Oak Review",
    "xlsx": "Tree Ledger",
    "epub": "Book of Oaks",
    "pdf": "Oak Report",
    "png": None,
}
CONTAINERS = ("docx", "pptx", "xlsx", "odt", "ods", "odp", "epub")


def body(converted) -> str:
    return "\n".join(i.text for i in serialize.to_items(converted.document) if i.layer == "body")


@pytest.mark.parametrize("suffix", TITLES)
def test_every_format_gives_its_text_and_title(samples, convert, suffix):
    converted = convert(samples[suffix], f"f.{suffix}")
    assert converted.title == TITLES[suffix]
    assert converted.warnings == []
    assert converted.document.name == "f"
    if suffix != "png":
        assert "oak" in body(converted).lower()
        assert "oak" in serialize.to_markdown(converted.document).lower()
    else:
        assert [i.label for i in serialize.to_items(converted.document)] == ["picture"]


def test_html_keeps_what_stands_before_the_first_heading(samples, convert):
    assert "Before it all." in body(convert(samples["html"], "a.html"))


def test_front_matter_is_the_title_and_not_the_text(convert):
    converted = convert(b"---\ntitle: From the Front\ntags: [a]\n---\nWords.\n", "a.md")
    assert converted.title == "From the Front"
    assert body(converted) == "Words."
    furniture = [i for i in serialize.to_items(converted.document) if i.layer == "furniture"]
    assert "tags: [a]" in furniture[0].text


@pytest.mark.parametrize("suffix", TITLES)
def test_an_empty_file_is_a_document_without_text(convert, suffix):
    converted = convert(b"", f"e.{suffix}")
    assert serialize.to_items(converted.document) == []
    assert converted.title is None


@pytest.mark.parametrize("suffix", TITLES)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_truncated_files_convert_or_say_why(samples, convert, suffix, share):
    content = samples[suffix]
    cut = content[: int(len(content) * share)]
    if suffix in (*CONTAINERS, "msg") or (suffix in ("pdf", "png", "mhtml") and share < 0.5):
        with pytest.raises(DocumentCorrupt, match=rf"cut\.{suffix}"):
            convert(cut, f"cut.{suffix}")
    else:
        convert(cut, f"cut.{suffix}")


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_damaged_members_are_corrupt_or_harmless(samples, convert, suffix):
    content = bytearray(samples[suffix])
    for at in range(len(content) // 3, len(content) // 3 + 400):
        content[at] ^= 0x5A
    try:
        convert(bytes(content), f"bad.{suffix}")
    except ConvertError as error:
        assert f"bad.{suffix}" in str(error)  # noqa: PT017 - a member that nobody reads is harmless


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx", "odt", "epub"])
def test_a_container_without_its_parts_is_corrupt(convert, make_zip, suffix):
    members = {
        "docx": {"word/document.xml": "<w:document"},
        "pptx": {"ppt/presentation.xml": "<p:presentation"},
        "xlsx": {"xl/workbook.xml": "<workbook"},
        "odt": {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "<office"},
        "epub": {"mimetype": "application/epub+zip", "META-INF/container.xml": "<container"},
    }[suffix]
    with pytest.raises(DocumentCorrupt, match=f"x.{suffix}"):
        convert(make_zip(members), f"x.{suffix}")


def test_an_encrypted_pdf_is_encrypted(locked_pdf, convert):
    with pytest.raises(DocumentEncrypted, match=r"secret\.pdf.*without it"):
        convert(locked_pdf, "secret.pdf")


def test_a_pdf_of_rubbish_is_corrupt(convert):
    with pytest.raises(DocumentCorrupt, match=r"r\.pdf") as caught:
        convert(b"%PDF-1.7\n" + b"rubbish " * 100, "r.pdf")
    assert "spooled" not in str(caught.value)


OLD_WORD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(9) + "WordDocument".encode("utf-16-le")


@pytest.mark.parametrize("content", [b"{\\rtf1 Hello}", OLD_WORD])
def test_old_office_formats_name_the_way_out(convert, content):
    with pytest.raises(UnsupportedFormat, match="LibreOffice"):
        convert(content, "old.doc")


def test_archives_are_bounded(samples, convert, make_zip):
    with pytest.raises(SourceTooLarge, match="members"):
        convert(samples["docx"], "a.docx", max_members=3)
    with pytest.raises(SourceTooLarge, match="unpacks to"):
        convert(samples["docx"], "a.docx", max_unpacked=1000)
    bomb = make_zip({"word/document.xml": b" " * 70_000_000})
    with pytest.raises(DocumentCorrupt, match="bomb"):
        convert(bomb, "a.docx")


def test_entities_are_not_expanded(convert, samples):
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{levels}]><x>&e8;</x>'
    converted = convert(bomb.encode(), "a.xml")
    assert len(body(converted)) <= len(bomb)
    secret = b"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/hostname'>]>"
    with_entity = samples["nxml"].replace(b"<!DOCTYPE article", secret + b"<!DOCTYPE article")
    convert(with_entity, "a.nxml")


def test_an_office_file_with_entities_is_refused(samples, convert, tmp_path):
    declared = b'<!DOCTYPE x [<!ENTITY a "hahaha"><!ENTITY b "' + b"&a;" * 50 + b'">]>'
    path = tmp_path / "entities.docx"
    path.write_bytes(samples["docx"])
    with zipfile.ZipFile(path) as archive:
        members = {m: archive.read(m) for m in archive.namelist()}
    xml = members["word/document.xml"].replace(b"<w:document", declared + b"<w:document", 1)
    members["word/document.xml"] = xml.replace(b"Plant forty", b"&b;&b;&b; Plant forty")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DocumentCorrupt, match=r"entities\.docx"):
        convert(path.read_bytes(), "entities.docx")


def test_nothing_is_fetched(convert, monkeypatch):
    import socket

    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: pytest.fail("name looked up"))
    page = b'<html><img src="http://example.org/a.png"><link href="http://example.org/a.css"><p>ok'
    assert body(convert(page, "a.html")).strip().endswith("ok")
    assert "ok" in body(convert(b"![x](http://example.org/a.png)\n\nok\n", "a.md"))
    assert "ok" in body(convert(b"![x](file:///etc/passwd)\n\nok\n", "a.md"))


def test_control_characters_are_cleaned_everywhere(convert):
    converted = convert(b"# A\x00b\x07\n\nc\x00d\x0c\n\n|x\x01|y|\n|-|-|\n|1\x02|2|\n", "a.md")
    text = body(converted)
    assert "Ab" in text
    assert not any(c < " " and c != "\n" for c in text)
    assert "\x00" not in serialize.to_markdown(converted.document)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"word " * 60_000, "long.md"),
        (b"word " * 60_000, "long.txt"),
        (b"word " * 60_000, "long.adoc"),
        (b"word " * 60_000, "long"),
        (b"<p>" + b"word " * 60_000, "long.html"),
        (b"a,b\n" + b"word " * 60_000 + b",2\n", "long.csv"),
    ],
)
def test_huge_lines_lose_nothing(convert, content, name):
    assert body(convert(content, name)).count("word") == 60_000


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"<div>" * 550 + b"needle" + b"</div>" * 550, "deep.html"),
        (b"\n".join(b"  " * n + b"- needle" for n in range(90)), "deep.md"),
        (b'a,b\n"needle', "open.csv"),
    ],
)
def test_what_a_parser_gives_up_on_is_read_as_text(convert, content, name):
    converted = convert(content, name)
    assert "needle" in body(converted)
    assert "<div>" not in body(converted)
    assert any("plain text" in warning for warning in converted.warnings)


def test_source_code_keeps_its_functions_and_language(convert):
    source = "\n\n\n".join(f"def f{n}():\n    a = {n}\n\n    return a" for n in range(80))
    items = convert(source.encode(), "a.py").document.texts
    assert {item.code_language.value for item in items} == {"Python"}
    assert len(items) == 3
    assert all(item.text.startswith("def f") and item.text.endswith("return a") for item in items)
    assert sum(item.text.count("return a") for item in items) == 80


def test_headers_declare_the_charset(convert):
    converted = convert("Straße".encode("iso-8859-1"), "a.txt", "text/plain; charset=iso-8859-1")
    assert body(converted) == "Straße"
    assert converted.warnings == []


def test_forced_text_is_taken_at_its_word(convert):
    converted = convert(b"<html><p>x", "a.md", "text/markdown", forced=True)
    assert converted.media_type == "text/markdown"


def test_what_a_format_needs_is_built_once(samples, convert):
    """F69: PDF's pipeline is kept; the other formats need none, nor Docling's converter."""
    from haiku.rag.convert import paged

    paged._pipeline.cache_clear()
    for _ in range(3):
        convert(samples["pdf"], "a.pdf")
    assert paged._pipeline.cache_info().misses == 1
    code = (
        "import sys; from haiku.rag.convert import local; local.warm_up();"
        "print('docling.document_converter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_parsers_are_not_heard(samples, convert, capfd):
    for suffix, content in samples.items():
        convert(content, f"a.{suffix}")
        convert(content[: len(content) // 2], "a") if suffix in ("md", "html") else None
    logging.getLogger("docling").error("after")
    out, _ = capfd.readouterr()
    assert out == ""


def test_a_missing_file_is_unreadable(tmp_path):
    from haiku.rag.convert import ConvertOptions, local

    with pytest.raises(SourceUnreadable):
        local.convert_file(tmp_path / "no", name="no.md", options=ConvertOptions())


@pytest.mark.parametrize("end", [20, -40])
@pytest.mark.parametrize("format_", ["png", "jpeg", "gif", "bmp", "webp"])
def test_a_cut_picture_is_corrupt_by_its_own_name(convert, format_, end):
    buffer = io.BytesIO()
    Image.effect_noise((60, 60), 50).save(buffer, format_)
    with pytest.raises(DocumentCorrupt, match=r"^an? holiday\.") as caught:
        convert(buffer.getvalue()[:end], f"a holiday.{format_}")
    assert "spooled" not in str(caught.value)


def test_a_message_has_its_people_and_its_text(samples, convert):
    text = body(convert(samples["msg"], "news.msg"))
    assert "From: Ann <ann@example.org>" in text
    assert "To: Bob <bob@example.org>" in text
    assert text.endswith("Forty oak trees.\nThey stand.")


@pytest.mark.parametrize(
    ("content", "said"),
    [(bytes(5_000), "zero bytes"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "OLE")],
)
def test_a_guess_that_says_nothing_is_not_made(convert, content, said):
    with pytest.raises(DocumentCorrupt, match=said):
        convert(content.ljust(600, b"\0"), "a.doc")


def test_a_picture_bomb_is_refused(convert, monkeypatch, samples):
    from haiku.rag.convert import paged

    monkeypatch.setattr(paged, "MAX_PIXELS", 100)
    with pytest.raises(DocumentCorrupt, match="pixels"):
        convert(samples["png"], "a.png")
