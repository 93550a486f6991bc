"""A folder of mixed files with real English sentences, the same for the same seed.

The sentences are those of the Python language reference, which every interpreter carries.
"""

import csv
import random
import re
from pathlib import Path
from pydoc_data import topics

#: Share of each format in a mixed folder.
MIX = {"md": 30, "txt": 20, "html": 20, "docx": 10, "csv": 5, "xlsx": 5, "pdf": 10}


def sentences() -> list[str]:
    """A few thousand sentences of running text."""
    text = " ".join(topics.topics.values())
    text = re.sub(r"[*`|\\_=+^~<>\[\]{}]+", "", text)
    found = re.split(r"(?<=[.])\s+", re.sub(r"\s+", " ", text))
    return sorted({s for s in found if 40 < len(s) < 300 and s[0].isupper()})


class Writer:
    """Writes files of a few pages each."""

    def __init__(self, seed: int = 1, *, length: int = 1) -> None:
        """Files of a few pages; `length` times as many sections when they are to be longer."""
        self._random = random.Random(seed)
        self._length = length
        self._sentences = sentences()

    def folder(self, path: Path, count: int) -> list[Path]:
        """`count` files in the proportions of `MIX`, below `path`."""
        path.mkdir(parents=True)
        kinds = [kind for kind, share in MIX.items() for _ in range(share)]
        return [self.file(path, n, kinds[n * 37 % len(kinds)]) for n in range(count)]

    def file(self, folder: Path, number: int, kind: str) -> Path:
        """One file of a kind."""
        path = folder / f"{number:05d}.{kind}"
        getattr(self, f"_{kind}")(path)
        return path

    def paragraph(self, count: int = 5) -> str:
        """Some sentences."""
        return " ".join(self._random.choices(self._sentences, k=count))

    def _sections(self) -> list[tuple[str, list[str]]]:
        return [
            (self.paragraph(1)[:50].rstrip("., "), [self.paragraph() for _ in range(4)])
            for _ in range(self._length * self._random.randint(3, 6))
        ]

    def _md(self, path: Path) -> None:
        parts = [f"# {path.stem}"]
        for heading, paragraphs in self._sections():
            parts += [f"## {heading}", *paragraphs]
        path.write_text("\n\n".join(parts), encoding="utf-8")

    def _txt(self, path: Path) -> None:
        text = "\n\n".join(p for _, paragraphs in self._sections() for p in paragraphs)
        path.write_text(text, encoding="utf-8")

    def _html(self, path: Path) -> None:
        body = "".join(
            f"<h2>{heading}</h2>" + "".join(f"<p>{p}</p>" for p in paragraphs)
            for heading, paragraphs in self._sections()
        )
        path.write_text(f"<html><title>{path.stem}</title><body>{body}</body></html>")

    def _docx(self, path: Path) -> None:
        import docx

        document = docx.Document()
        for heading, paragraphs in self._sections():
            document.add_heading(heading, 1)
            for paragraph in paragraphs:
                document.add_paragraph(paragraph)
        document.save(str(path))

    def _rows(self) -> list[list[str]]:
        head = ["number", "name", "remark"]
        return [
            head,
            *([str(n), self.paragraph(1)[:20], self.paragraph(1)[:60]] for n in range(40)),
        ]

    def _csv(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(self._rows())

    def _xlsx(self, path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        for row in self._rows():
            book.active.append(row)
        book.save(path)

    def _pdf(self, path: Path) -> None:
        from reportlab.lib.styles import getSampleStyleSheet
        from reportlab.platypus import Paragraph, SimpleDocTemplate

        styles = getSampleStyleSheet()
        story = []
        for heading, paragraphs in self._sections():
            story.append(Paragraph(heading, styles["Heading1"]))
            story += [Paragraph(p, styles["BodyText"]) for p in paragraphs]
        SimpleDocTemplate(str(path), invariant=1).build(story)
