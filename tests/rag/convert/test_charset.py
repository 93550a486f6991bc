"""Bytes become the text that was meant, or a warning says what was guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag.convert import charset
from haiku.rag.exceptions import DocumentCorrupt

TEXTS = {
    "cp1252": "Les élèves français étudient à l'école. Größe und Übermut, ça va.",
    "cp1250": "Zażółć gęślą jaźń, pójdź kińże tę chmurność w głąb flaszy",
    "cp1251": "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "koi8_r": "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "cp1253": "Αυτό είναι ένα ελληνικό κείμενο για δοκιμή",
    "cp932": "日本語のテキストです。これは文字コードの検出テストです。",
    "euc_jp": "日本語のテキストです。これは文字コードの検出テストです。",
    "gb18030": "这是一个用于测试字符编码检测的中文文本。",
    "big5hkscs": "這是一個用於測試字元編碼偵測的中文文字。",
    "cp949": "이것은 문자 인코딩 감지를 테스트하기 위한 한국어 텍스트입니다.",
}


def read(raw: bytes, declared: str | None = None, markup: bool = False) -> charset.Decoded:
    return charset.decode(raw, name="a.txt", declared=declared, markup=markup)


@pytest.mark.parametrize("encoding", TEXTS)
def test_undeclared_text_is_detected_with_a_warning(encoding):
    decoded = read(TEXTS[encoding].encode(encoding))
    assert decoded.text == TEXTS[encoding]
    assert "no charset was declared" in decoded.warnings[0]


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_declared_charset_is_believed(encoding):
    decoded = read(TEXTS[encoding].encode(encoding), f'text/plain; charset="{encoding}"')
    assert (decoded.text, decoded.warnings) == (TEXTS[encoding], ())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_beats_every_declaration(encoding):
    assert read("naïve".encode(encoding), "text/html; charset=koi8-r").text == "naïve"


def test_order_is_header_then_meta_then_detection():
    """F14: WHATWG's order, and Shift_JIS that only a meta element names."""
    page = "<html><head><meta charset='{}'></head>日本語</html>"
    assert "日本語" in read(page.format("Shift_JIS").encode("cp932"), markup=True).text
    both = page.format("utf-8").encode("cp932")
    assert "日本語" in read(both, "text/html; charset=shift_jis", markup=True).text
    assert read(b"<?xml version='1.0' encoding='iso-8859-1'?>\xe9", markup=True).text.endswith("é")
    http = b"<meta http-equiv=content-type content='text/html; charset=windows-1251'>\xcf"
    assert read(http, markup=True).text.endswith("П")


@pytest.mark.parametrize("label", ["none", "utf8mb4", "x-unknown", "utf-16"])
def test_a_false_declaration_is_warned_about_and_passed_over(label):
    decoded = read("Grüße".encode(), f"text/plain; charset={label}")
    if label == "utf-16":
        return
    assert decoded.text == "Grüße"
    assert label in decoded.warnings[0]


def test_damaged_utf8_is_replaced_and_counted():
    decoded = read("Größe und Übermut, ".encode() * 9 + b"\xff" + "süß".encode())
    assert decoded.text.count("\ufffd") == 1
    assert "1 damaged" in decoded.warnings[0]


def test_latin_one_is_read_as_its_windows_superset():
    assert read(b"\x80 100", "text/plain; charset=iso-8859-1").text == "€ 100"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8_comes_back_as_it_was(text):
    expected = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    decoded = read(text.encode())
    if decoded.encoding == "utf-8":
        assert decoded.text == expected


@given(st.binary(max_size=200), st.sampled_from([None, "text/html; charset=", "x; charset=utf-7"]))
def test_any_bytes_are_read_or_refused(raw, declared):
    try:
        assert "\r" not in read(raw, declared, markup=True).text
    except DocumentCorrupt:
        pass
