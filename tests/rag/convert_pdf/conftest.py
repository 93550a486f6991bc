"""PDFs drawn for the tests, and the converter that reads them.

Each builder draws one layout and is found by its name through the `pdf` fixture.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reportlab.lib import pdfencrypt
from reportlab.lib.pagesizes import A4, landscape, letter
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

Draw = Callable[[Canvas], None]
SUBJECTS = ("harbour", "ferry", "keeper", "lighthouse", "channel", "pilot", "survey", "buoy")
VERBS = ("follows", "measures", "repairs", "describes", "crosses", "signals", "records", "reaches")
THINGS = ("northern", "shallow", "printed", "wooden", "quiet", "broken", "distant", "narrow")


def sentences(seed: int, count: int) -> str:
    """Invented English of `count` sentences, the same for the same seed."""
    dice = random.Random(seed)
    out = []
    for _ in range(count):
        subject, verb, thing, other = map(dice.choice, (SUBJECTS, VERBS, THINGS, SUBJECTS))
        number = dice.randrange(10, 99)
        out.append(
            f"The {subject} {verb} the {thing} {other} number {number} before evening comes."
        )
    return " ".join(out)


def wrap(words: str, width: float, font: str, size: float) -> list[str]:
    """The text in lines of at most `width` points."""
    lines, line = [], ""
    for word in words.split():
        longer = f"{line} {word}".strip()
        if pdfmetrics.stringWidth(longer, font, size) > width and line:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line]


class Pen:
    """Writes paragraphs down a column of a canvas."""

    def __init__(self, canvas: Canvas, left: float, top: float, width: float) -> None:
        self.canvas, self.left, self.y, self.width = canvas, left, top, width

    def write(
        self,
        words: str,
        font: str = "Helvetica",
        size: float = 10.0,
        *,
        gap: float = 6.0,
        indent: float = 0.0,
    ) -> None:
        """One paragraph in ragged lines, then a gap in points."""
        self.canvas.setFont(font, size)
        for line in wrap(words, self.width - indent, font, size):
            self.y -= size * 1.2
            self.canvas.drawString(self.left + indent, self.y, line)
        self.y -= gap

    def item(self, mark: str, words: str, indent: float = 0.0) -> None:
        """A list item with a hanging indent."""
        before = self.y
        self.write(words, indent=indent + 14, gap=2)
        after, self.y = self.y, before
        self.y -= 12
        self.canvas.setFont("Helvetica", 10)
        self.canvas.drawString(self.left + indent, self.y, mark)
        self.y = after


def headings(canvas: Canvas) -> None:
    """One column with a title and numbered headings of two levels in bold."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write("The Harbour Handbook", "Helvetica-Bold", 22, gap=14)
    for chapter in (1, 2):
        pen.write(f"{chapter} Chapter about part {chapter}", "Helvetica-Bold", 15, gap=8)
        pen.write(sentences(chapter, 5))
        for section in (1, 2):
            pen.write(f"{chapter}.{section} Section of detail", "Helvetica-Bold", 12, gap=5)
            pen.write(sentences(chapter * 10 + section, 4))
            pen.write(sentences(chapter * 20 + section, 4))


def centred_title(canvas: Canvas) -> None:
    """A title in the middle, and under it a heading in the same type at the left edge."""
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawCentredString(297, 760, "Ranges of the Arctic Terns of the Island")
    pen = Pen(canvas, 72, 750, 450)
    pen.write("1 Introduction", "Helvetica-Bold", 18, gap=8)
    pen.write(sentences(3, 6))
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawCentredString(297, 500, "A Second Title that is Rather Long")
    canvas.drawCentredString(297, 478, "and goes on in a second line")
    Pen(canvas, 72, 460, 450).write(sentences(4, 6))


def same_size(canvas: Canvas) -> None:
    """Headings that differ from the body only by weight."""
    pen = Pen(canvas, 72, 770, 450)
    for name in ("Summary", "Method of work", "Results"):
        pen.write(name, "Helvetica-Bold", 10, gap=4)
        pen.write(sentences(len(name), 6), gap=12)


def columns(canvas: Canvas) -> None:
    """Two columns under a full-width title, around a full-width figure with a caption."""
    Pen(canvas, 60, 790, 480).write("A Study of Two Columns", "Times-Bold", 20)
    for left, seed in ((60, 1), (310, 2)):
        pen = Pen(canvas, left, 745, 230)
        pen.write(f"Upper part {seed} starts here. {sentences(seed, 12)}", "Times-Roman", 10)
    canvas.drawImage(_image(), 60, 410, 485, 120)
    canvas.setFont("Times-Roman", 9)
    canvas.drawString(160, 396, "Figure 1: The harbour seen from the channel.")
    for left, seed in ((60, 3), (310, 4)):
        pen = Pen(canvas, left, 380, 230)
        pen.write(f"Lower part {seed} starts here. {sentences(seed, 12)}", "Times-Roman", 10)


def run_on(canvas: Canvas) -> None:
    """A sentence that runs on from the first column into the second, and to the next page."""
    lines = wrap(sentences(5, 60), 230, "Helvetica", 10)
    lines = [line for line in lines if not line.endswith(".")]
    for number, left in enumerate((60, 310, 60)):
        if number == 2:
            canvas.showPage()
        canvas.setFont("Helvetica", 10)
        for row, line in enumerate(lines[number * 10 : number * 10 + 10]):
            canvas.drawString(left, 760 - 12 * row, line[0].lower() + line[1:])


TABLE = [
    ["Berth", "Ship", "Length", "Draught"],
    ["A1", "Morning Star", "112.5", "6.1"],
    ["A2", "Grey Heron", "98.0", "5.4"],
    ["B1", "Old Compass", "143.7", "7.9"],
]


def ruled(canvas: Canvas) -> None:
    """A table with all its lines, between paragraphs, with a caption above."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write(sentences(1, 4))
    pen.write("Table 1. Ships at their berths.", gap=4)
    top = pen.y
    xs, ys = [72, 172, 292, 372, 452], [top - 18 * row for row in range(5)]
    canvas.grid(xs, ys)
    for row, cells in enumerate(TABLE):
        canvas.setFont("Helvetica-Bold" if row == 0 else "Helvetica", 10)
        for x, cell in zip(xs, cells, strict=False):
            canvas.drawString(x + 4, ys[row + 1] + 5, cell)
    pen.y = ys[-1] - 12
    pen.write(sentences(2, 4))


def spans(canvas: Canvas) -> None:
    """A ruled table whose header covers two columns, close to its neighbours' text."""
    canvas.setFont("Helvetica", 9)
    for x0, y0, x1, y1 in (
        (72, 700, 372, 700), (72, 680, 372, 680), (72, 660, 372, 660), (72, 640, 372, 640),
        (72, 700, 72, 640), (172, 700, 172, 640), (272, 680, 272, 640), (372, 700, 372, 640),
    ):  # fmt: skip
        canvas.line(x0, y0, x1, y1)
    rows = {686: ((76, "Place"), (240, "Depth")), 666: ((76, "Pier"), (174, "lowest tide ever"))}
    rows[646] = ((76, "Basin"), (176, "4"))
    for y, cells in rows.items():
        for x, words in cells:
            canvas.drawString(x, y, words)
    canvas.drawString(274, 666, "highest")
    canvas.drawString(276, 646, "9")


def borderless(canvas: Canvas) -> None:
    """A table by alignment alone, between paragraphs."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write(sentences(1, 4), gap=14)
    for cells in TABLE:
        pen.y -= 14
        canvas.drawString(80, pen.y, cells[0])
        canvas.drawString(160, pen.y, cells[1])
        canvas.drawRightString(330, pen.y, cells[2])
        canvas.drawRightString(420, pen.y, cells[3])
    pen.y -= 14
    pen.write(sentences(2, 4))


def booktabs(canvas: Canvas) -> None:
    """Two rows under a header, with horizontal rules only."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write(sentences(1, 4), gap=14)
    for row, cells in enumerate(TABLE[:3]):
        if row < 2:
            canvas.line(80, pen.y - 3, 400, pen.y - 3)
        pen.y -= 16
        for x, cell in zip((84, 160, 280, 350), cells, strict=True):
            canvas.drawString(x, pen.y, cell)
    canvas.line(80, pen.y - 6, 400, pen.y - 6)
    pen.y -= 14
    pen.write(sentences(2, 4))


def running(canvas: Canvas) -> None:
    """Four pages with a running header, a footer and page numbers; the table runs low."""
    for page in range(1, 5):
        canvas.setFont("Helvetica", 8)
        canvas.drawString(72, 810, "Harbour authority - annual report")
        canvas.drawRightString(520, 810, f"Section {page}")
        canvas.drawCentredString(297, 30, f"Page {page} of 4")
        pen = Pen(canvas, 72, 770, 450)
        for part in range(9):
            pen.write(sentences(page * 50 + part, 6))
        canvas.showPage()


def lists(canvas: Canvas) -> None:
    """Nested bullets, then numbers, between paragraphs."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write("These things are needed:", gap=4)
    pen.item("•", "A rope of the usual length, which must be dry and whole, and long enough "
             "to reach from the quay to the deck at low water.")  # fmt: skip
    pen.item("•", "Two anchors:")
    pen.item("–", "a heavy one", indent=18)
    pen.item("–", "a light one", indent=18)
    pen.item("•", "Lamp oil.")
    pen.y -= 8
    pen.write("Then do this in order.", gap=4)
    for number, words in enumerate(("Tie the rope.", "Drop the anchor.", "Light the lamp."), 1):
        pen.item(f"{number}.", words)
    pen.y -= 8
    pen.write(sentences(3, 3))


def footnotes(canvas: Canvas) -> None:
    """Two notes in small type under a short rule."""
    pen = Pen(canvas, 72, 770, 450)
    for part in range(6):
        pen.write(sentences(part, 5))
    canvas.line(72, 110, 200, 110)
    for y, mark, words in ((98, "1", "Counted in the first week."), (86, "2", "Not yet printed.")):
        canvas.setFont("Helvetica", 5)
        canvas.drawString(72, y + 3, mark)
        canvas.setFont("Helvetica", 8)
        canvas.drawString(76, y, words)


def slides(canvas: Canvas) -> None:
    """Landscape pages with a large title and bullets."""
    for page in range(1, 4):
        canvas.setPageSize(landscape(A4))
        pen = Pen(canvas, 60, 540, 700)
        pen.write(f"Slide about item {page}", "Helvetica-Bold", 30, gap=20)
        for part in range(3):
            canvas.setFont("Helvetica", 18)
            pen.y -= 30
            canvas.drawString(70, pen.y, "•")
            canvas.drawString(95, pen.y, f"Point {part + 1} of slide {page}")
        canvas.showPage()


def form(canvas: Canvas) -> None:
    """Labels with fillable fields."""
    canvas.setFont("Helvetica", 10)
    for row, (label, value) in enumerate((("Name", "Ada Quay"), ("Port", "Northhaven"))):
        y = 700 - 30 * row
        canvas.drawString(72, y, f"{label}:")
        canvas.acroForm.textfield(name=label, value=value, x=150, y=y - 5, width=200, height=18)


def rotated(canvas: Canvas) -> None:
    """A page shown turned by a quarter (`/Rotate 90`), drawn so that it reads upright."""
    canvas.setPageSize(letter)
    canvas.setPageRotation(90)
    canvas.saveState()
    canvas.translate(500, 100)
    canvas.rotate(90)
    Pen(canvas, 0, 300, 400).write(f"Turned page. {sentences(1, 6)}")
    canvas.restoreState()


def sideways(canvas: Canvas) -> None:
    """A portrait page whose text reads upwards, with one line across."""
    canvas.saveState()
    canvas.rotate(90)
    Pen(canvas, 80, -120, 500).write(f"Sideways text. {sentences(2, 6)}")
    canvas.restoreState()
    canvas.setFont("Helvetica", 9)
    canvas.drawString(300, 60, "upright stamp")


def cropped(canvas: Canvas) -> None:
    """A page of which a part is shown."""
    canvas.setCropBox((50, 60, 450, 760))
    Pen(canvas, 72, 700, 350).write(f"Cropped page. {sentences(1, 6)}")


def cjk(canvas: Canvas) -> None:
    """Chinese in lines without spaces."""
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    canvas.setFont("STSong-Light", 12)
    canvas.drawString(72, 740, "港口的灯塔在夜里发出光亮，船员们看见以后就")
    canvas.drawString(72, 724, "知道方向。渡轮每天早上六点出发。")


def hyphens(canvas: Canvas) -> None:
    """Words broken at line ends: one known, one unknown, one compound."""
    canvas.setFont("Helvetica", 10)
    lines = (
        "The navigation of the channel is hard, as every ship needs good navi-",
        "gation and a pilot who is trained in the reading of barome-",
        "ters. It is well known that the weather here is a well-",
        "known danger, and that the year from 1990 to 19-",
        "95 was the worst of them.",
    )
    for row, line in enumerate(lines):
        canvas.drawString(72, 740 - 12 * row, line)


def code(canvas: Canvas) -> None:
    """A listing between paragraphs, with a phrase in fixed pitch in the text."""
    pen = Pen(canvas, 72, 770, 450)
    pen.write(sentences(1, 4))
    canvas.setFont("Courier", 9)
    for line in ("def dock(ship):", "    if ship.late:", "        return None", "    return 1"):
        pen.y -= 11
        canvas.drawString(72 + 5.4 * (len(line) - len(line.lstrip())), pen.y, line.strip())
    pen.y -= 10
    pen.write(sentences(2, 4))


def scanned(canvas: Canvas) -> None:
    """An image over the whole page and no text."""
    canvas.drawImage(_image(), 0, 0, *A4)


def bookmarks(canvas: Canvas) -> None:
    """Headings that look like text and are named by the outline alone."""
    pen = Pen(canvas, 72, 770, 450)
    for key, (name, level) in enumerate((("Arrival", 0), ("Papers", 1), ("Departure", 0))):
        canvas.bookmarkPage(str(key))
        canvas.addOutlineEntry(name, str(key), level)
        pen.write(name, gap=2)
        pen.write(sentences(key, 5))


def fake_bold(canvas: Canvas) -> None:
    """A line printed twice, a hair apart."""
    canvas.setFont("Helvetica", 12)
    canvas.drawString(72, 740, "Printed twice to look bold")
    canvas.drawString(72.4, 740, "Printed twice to look bold")


def letter_page(canvas: Canvas) -> None:
    """A letter of one page: addresses side by side, a plain page number."""
    canvas.setFont("Helvetica", 10)
    for row, (left, right) in enumerate((("Ada Quay", "Port Office"), ("Pier 4", "Basin Road 9"))):
        canvas.drawString(72, 780 - 12 * row, left)
        canvas.drawString(350, 780 - 12 * row, right)
    pen = Pen(canvas, 72, 700, 450)
    pen.write("Dear friends,")
    pen.write(sentences(1, 8))
    canvas.drawCentredString(297, 30, "- 1 -")


def encrypted(canvas: Canvas) -> None:
    """Protected by a password for opening."""
    canvas.drawString(72, 700, "secret words")


def _image() -> ImageReader:
    from PIL import Image

    return ImageReader(Image.effect_noise((60, 40), 40).convert("RGB"))


@pytest.fixture(scope="session")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The path of the PDF that the builder of this name draws."""
    folder = tmp_path_factory.mktemp("pdf")

    def make(name: str) -> Path:
        path = folder / f"{name}.pdf"
        if not path.exists():
            lock = pdfencrypt.StandardEncryption("user", "owner") if name == "encrypted" else None
            canvas = Canvas(str(path), pagesize=A4, encrypt=lock, invariant=1)
            globals()[name](canvas)
            canvas.save()
        return path

    return make


@pytest.fixture(scope="session")
def convert() -> Callable[[Path], Any]:
    """Converts a file as the workers do; returns docling's document."""
    from docling.datamodel.base_models import InputFormat
    from docling.document_converter import DocumentConverter

    from haiku.rag.convert.pdf import pdf_format_option

    options = {InputFormat.PDF: pdf_format_option()}
    converter = DocumentConverter(allowed_formats=[InputFormat.PDF], format_options=options)
    return lambda path: converter.convert(path).document
