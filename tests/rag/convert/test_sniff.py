"""What a file is: by content, then declared type, then suffix."""

import io

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haiku.rag.convert import sniff
from haiku.rag.exceptions import (
    ConvertError,
    DocumentCorrupt,
    DocumentEncrypted,
    SourceUnreadable,
    UnsupportedFormat,
)

FORMATS = {
    "adoc": "asciidoc",
    "tex": "latex",
    "eml": "email",
    "txt": "text",
    "nxml": "jats",
    "py": "code",
    "png": "image",
}


def kind(stored, content: bytes, name: str, declared: str | None = None) -> str:
    return sniff.sniff(stored(content), name=name, declared=declared).format


def test_every_sample_is_recognised(samples, stored):
    found = {suffix: kind(stored, content, f"a.{suffix}") for suffix, content in samples.items()}
    assert found == {suffix: FORMATS.get(suffix, suffix) for suffix in samples}


@pytest.mark.parametrize("name", ["blob", "a.txt", "a.bin", "x.pdf", "notes.docx"])
@pytest.mark.parametrize("suffix", ["pdf", "docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"])
def test_binary_documents_are_recognised_under_any_name(samples, stored, suffix, name):
    assert kind(stored, samples[suffix], name, "application/octet-stream") == suffix


@pytest.mark.parametrize(
    ("content", "name", "declared", "expected"),
    [
        (b"<!DOCTYPE html><p>x", "a.pdf", "application/pdf", "html"),
        (b"\n <!-- c --><HTML><p>x", "a.txt", "text/plain", "html"),
        (b"<html>in a manual</html>", "a.md", None, "md"),
        (b"<!doctype html><?php", "a.php", None, "code"),
        # F36
        (b"BM is a format of pictures", "a.md", None, "md"),
        (b"ID3 tags\n", "a.md", None, "md"),
        (b"PK is a prefix\n", "a.txt", None, "text"),
        (b"GIF89a is a header", "a.txt", None, "text"),
        (b"%PDF-1.4 begins every file\n", "a.md", None, "md"),
        (b"MZ\n", "README", None, "text"),
        (b"<<\n/ASCII85EncodePages false\n>>", "x.joboptions", None, "text"),
        (b"alias ll='ls -l'\n", ".bashrc", None, "text"),
        (b"just text", ".md", None, "text"),
        (b"a,b\n1,2\n", "data", "text/csv; charset=utf-8", "csv"),
        (b"a,b\n1,2\n", "data.csv", "text/plain", "csv"),
        (b"# T\n", "data.csv", "text/markdown", "md"),
        (b"Subject: a note\nFrom: me\n\nnot a mail\n", "a.txt", None, "text"),
        (b"all: x\n\tcc x.c\n", "Makefile", None, "code"),
        (b"<?xml version='1.0'?><a/>", "a", None, "code"),
        (b"{\\rtf1 x}", "a.doc", None, "rtf"),
        ("é,b\n1,2\n".encode("utf-16"), "a.csv", None, "csv"),
        ("a,b\n1,2\n".encode("utf-16-le"), "a.csv", None, "csv"),
        ("a text".encode("utf-32"), "a", None, "text"),
        ("Größe".encode("cp1252"), "a.txt", None, "text"),
        (b"text\x00with\x01some", "a.txt", None, "text"),
        (b"", "a.pdf", None, "text"),
    ],
)
def test_whole_evidence_decides(stored, content, name, declared, expected):
    assert kind(stored, content, name, declared) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(100),
        b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff" + bytes(60),
        b"\x7fELF\x02\x01\x01" + bytes(60),
        b"ID3\x04\0\0\0\0\0\x21TSSE" + bytes(40),
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(range(200)),
        b"SQLite format 3\0" + bytes(80),
        bytes(range(256)) * 4,
    ],
)
def test_other_binaries_are_refused_by_name(stored, content):
    with pytest.raises(UnsupportedFormat, match=r"thing\.dat is binary content"):
        kind(stored, content, "thing.dat")


def test_pictures_need_more_than_two_letters(stored):
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "BMP")
    assert kind(stored, buffer.getvalue(), "a") == "image"
    with pytest.raises(UnsupportedFormat):
        kind(stored, b"BM" + bytes(60), "a")


def test_a_zip_that_is_no_document_is_unsupported(stored, make_zip):
    for name, error in (("a.zip", UnsupportedFormat), ("a.docx", DocumentCorrupt)):
        with pytest.raises(error, match=f"{name} is a zip archive of no known document format"):
            kind(stored, make_zip({"a.txt": "x"}), name)


@pytest.mark.parametrize("name", ["a.docx", "a.pdf", "a.odt", "a.png"])
@pytest.mark.parametrize("content", [b"not one at all", bytes(range(256)) * 3, b"PK\x03\x04" * 5])
def test_a_broken_promise_is_corrupt(stored, name, content):
    with pytest.raises(DocumentCorrupt, match=name):
        kind(stored, content, name)


def test_locked_containers_say_so(stored, make_zip, samples):
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le")
    manifest = make_zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "META-INF/manifest.xml": "<manifest:encryption-data/>",
        }
    )
    flagged = bytearray(samples["docx"])
    at = flagged.rfind(b"PK\x01\x02")
    flagged[at + 8] |= 1
    for content in (ole, manifest, bytes(flagged)):
        with pytest.raises(DocumentEncrypted, match="plan"):
            kind(stored, content, "plan.docx")


def test_old_office_files_are_told_apart(stored):
    for stream, format_ in (("WordDocument", "doc"), ("Workbook", "xls")):
        ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + stream.encode("utf-16-le")
        assert kind(stored, ole, "a.bin") == format_


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(SourceUnreadable, match=r"gone\.md"):
        sniff.sniff(tmp_path / "gone", name="gone.md")


def test_forced_types(samples):
    assert sniff.forced("text/html; charset=utf-8", name="x").format == "html"
    with pytest.raises(UnsupportedFormat):
        sniff.forced("application/pdf", name="x")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.sampled_from(["a", "a.md", "a.docx", "b.pdf", ".x", "c.py"]))
@example(b"<!--" * 200 + b"-->" * 200, "a.html")
@example(b"PK\x05\x06" + bytes(18), "a.docx")
def test_any_bytes_have_a_type_or_a_reason(stored, content, name):
    try:
        found = sniff.sniff(stored(content), name=name)
    except ConvertError as error:
        assert name in str(error)  # noqa: PT017 - either is right
    else:
        assert found.media_type


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=300))
def test_any_text_is_text(stored, text):
    """In UTF-8 and, with a mark, in UTF-16."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert kind(stored, text.encode(encoding), "a.md") not in ("image", "pdf")
