"""The text of a page without a tree: for pages that are too deep or too broken for a parser."""

from __future__ import annotations

from html.parser import HTMLParser

#: Elements whose content is not text.
_HIDDEN = {"script", "style", "template", "noscript", "svg"}
#: Elements that do not begin a new paragraph.
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "i", "kbd", "mark", "q", "s", "samp",
    "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr", "font",
}  # fmt: skip


def text_of(html: str) -> str:
    """Everything a reader would see, a blank line between blocks."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return "".join(reader.parts)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in _HIDDEN))
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)

    def _break(self, tag: str) -> None:
        if tag == "br":
            self.parts.append("\n")
        elif tag not in _INLINE and self.parts and self.parts[-1] != "\n\n":
            self.parts.append("\n\n")
