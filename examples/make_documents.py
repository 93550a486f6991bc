"""Writes the binary files of `documents/`: docx, pptx, xlsx and pdf.

They are committed; run this (with the development environment) only to change them.
"""

import math
from pathlib import Path

from docx import Document
from openpyxl import Workbook
from PIL import Image, ImageDraw
from pptx import Presentation
from pptx.util import Inches
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    Image as Picture,
)
from reportlab.platypus import (
    PageBreak,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
)

HERE = Path(__file__).parent / "documents"


def maintenance_report(path: Path) -> None:
    """A Word document with headings and a table."""
    doc = Document()
    doc.core_properties.title = "Maintenance Report, Spring 2026"
    doc.add_heading("Maintenance Report, Spring 2026", 0)
    doc.add_paragraph(
        "Written by Torvald Aune after the opening week, 9 to 15 March. The winter was mild but "
        "wet, and most of the damage is due to water rather than wind."
    )
    doc.add_heading("Lighthouse", 1)
    doc.add_paragraph(
        "The lantern glass has a crack of 14 centimetres in the third pane from the door. It was "
        "sealed with epoxy and must be replaced before November. The lamp changer was tested ten "
        "times and worked every time."
    )
    doc.add_heading("Jetty", 1)
    doc.add_paragraph(
        "Two of the eight planks of the north jetty were rotten and have been replaced with larch. "
        "The southern ladder has lost its lowest rung; it is marked with red tape and closed."
    )
    doc.add_heading("Spare parts used", 2)
    rows = [
        ("Part", "Used", "Left", "Reorder at"),
        ("Larch plank 2.4 m", "2", "3", "4"),
        ("Epoxy, 400 g", "1", "1", "2"),
        ("Bilge pump seal", "4", "6", "3"),
        ("Anemometer cup set", "1", "0", "1"),
    ]
    table = doc.add_table(rows=0, cols=4)
    table.style = "Table Grid"
    for row in rows:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    doc.add_heading("Open work", 1)
    for text in (
        "Order an anemometer cup set: none is left.",
        "Ask the harbour master for a diver to inspect the mooring chain.",
        "Repaint the landing marks in May, when the rock is dry.",
    ):
        doc.add_paragraph(text, style="List Bullet")
    doc.save(str(path))


def season_review(path: Path) -> None:
    """A presentation with titles, bullets and a table."""
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[0])
    slide.shapes.title.text = "Season Review 2025"
    slide.placeholders[1].text = "Tern Island Trust, annual meeting"
    slides = {
        "Breeding success": [
            "412 pairs of Arctic tern, 18 % more than in 2024",
            "0.9 fledged chicks a pair; the ten-year mean is 0.6",
            "No mink on the island for the third year",
        ],
        "Visitors": [
            "1,046 day visitors on 94 open days",
            "Eleven school classes, all from Brackwater and Holm",
            "The guided walk was booked out on 61 days",
        ],
        "Money": [
            "Income 384,000 crowns, of which tickets 38,500",
            "The new battery bank cost 212,000 crowns",
            "The reserve covers seven months",
        ],
    }
    for title, lines in slides.items():
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join(lines)
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Pairs by species"
    rows = [
        ("Species", "2024", "2025"),
        ("Arctic tern", "349", "412"),
        ("Puffin", "87", "91"),
        ("Eider", "133", "128"),
    ]
    shape = slide.shapes.add_table(4, 3, Inches(1), Inches(2), Inches(7), Inches(2))
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            shape.table.cell(r, c).text = text
    deck.core_properties.title = "Season Review 2025"
    deck.save(str(path))


def supplies(path: Path) -> None:
    """A workbook with two sheets."""
    book = Workbook()
    sheet = book.active
    sheet.title = "Food"
    for row in [
        ("Item", "Unit", "In store", "Per week", "Weeks left"),
        ("Oats", "kg", 24, 3, 8),
        ("Rice", "kg", 30, 4, 7.5),
        ("Lentils", "kg", 9, 1.5, 6),
        ("Coffee", "kg", 2, 0.5, 4),
        ("Tinned tomatoes", "tin", 96, 8, 12),
    ]:
        sheet.append(row)
    medical = book.create_sheet("Medical")
    for row in [
        ("Item", "Quantity", "Expires", "Where"),
        ("Adrenaline pen", 2, "2027-02", "Kitchen, red box"),
        ("Burn dressing", 6, "2028-09", "Generator shed"),
        ("Splint", 3, "-", "Boat and hut"),
        ("Antibiotic, broad", 4, "2026-11", "Kitchen, red box"),
    ]:
        medical.append(row)
    book.properties.title = "Supplies"
    book.save(path)


def study(path: Path) -> None:
    """A PDF of three pages: headings, a ruled table, a picture, running header and footer."""
    styles = getSampleStyleSheet()
    body = ParagraphStyle("body", parent=styles["BodyText"], leading=14, spaceAfter=6)
    picture = HERE.parent / "chart.png"
    _chart(picture)
    table = Table(
        [
            ["Colony", "Pairs 2023", "Pairs 2024", "Pairs 2025", "Chicks a pair"],
            ["Eastern shingle", "211", "236", "288", "1.0"],
            ["Lighthouse green", "61", "72", "79", "0.8"],
            ["South skerry", "44", "41", "45", "0.5"],
        ],
        style=[
            ("GRID", (0, 0), (-1, -1), 0.6, "black"),
            ("FONT", (0, 0), (-1, 0), "Helvetica-Bold"),
        ],
    )
    story = [
        Paragraph("Foraging Range of Arctic Terns on Tern Island", styles["Title"]),
        Paragraph("1 Introduction", styles["Heading1"]),
        Paragraph(
            "Arctic terns carry one fish at a time, so the distance between nest and feeding place "
            "decides how many chicks a pair can raise. Between 2023 and 2025 we followed 46 adult "
            "birds with loggers of 1.1 grams, less than one per cent of the weight of a bird.",
            body,
        ),
        Paragraph(
            "The island lies at the edge of a bank where sandeels spawn. Fishing for sandeels on the "
            "bank ended in 2022, which gave us the chance to watch a colony recover.",
            body,
        ),
        Paragraph("2 Methods", styles["Heading1"]),
        Paragraph("2.1 Loggers", styles["Heading2"]),
        Paragraph(
            "Birds were caught on the nest in the second week of incubation with a walk-in trap, "
            "fitted with a logger on the back, and released within nine minutes. Loggers recorded a "
            "position every ninety seconds and were collected after five days.",
            body,
        ),
        Paragraph("2.2 Counting", styles["Heading2"]),
        Paragraph(
            "Nests were counted on foot on 10 June of each year by two people walking in parallel, "
            "three metres apart. A second count on the following day found 97 per cent of the nests "
            "of the first.",
            body,
        ),
        PageBreak(),
        Paragraph("3 Results", styles["Heading1"]),
        Paragraph(
            "The median foraging trip reached 6.8 kilometres from the nest in 2023 and 4.1 kilometres "
            "in 2025. Trips became shorter in every colony, most of all on the eastern shingle.",
            body,
        ),
        Paragraph("Table 1. Breeding pairs and success in the three colonies.", body),
        table,
        Spacer(1, 0.6 * cm),
        Picture(str(picture), width=12 * cm, height=6 * cm),
        Paragraph("Figure 1. Median length of a foraging trip by week, 2023 to 2025.", body),
        PageBreak(),
        Paragraph("4 Discussion", styles["Heading1"]),
        Paragraph(
            "Shorter trips leave more time for brooding, and chicks that are brooded survive cold "
            "rain. We think that the return of the sandeels, rather than the removal of mink, explains "
            "most of the success since 2023, because the two colonies that mink never reached "
            "recovered just as fast.",
            body,
        ),
        Paragraph(
            "A single bad spring could undo this. In 2018 a late storm on 21 June drowned four nests "
            "in five on the south skerry, which lies less than two metres above the highest tide.",
            body,
        ),
        Paragraph("5 Acknowledgements", styles["Heading1"]),
        Paragraph(
            "The work was paid for by the Tern Island Trust and the Holm Savings Bank. Ragnhild Dahl "
            "built the traps.",
            body,
        ),
    ]
    document = SimpleDocTemplate(
        str(path),
        pagesize=A4,
        title="Foraging Range of Arctic Terns on Tern Island",
        author="L. Aune, R. Dahl",
        invariant=1,
    )
    document.build(story, onFirstPage=_furniture, onLaterPages=_furniture)
    picture.unlink()


def _furniture(canvas: Canvas, document: SimpleDocTemplate) -> None:
    canvas.setFont("Helvetica", 8)
    canvas.drawString(2.5 * cm, A4[1] - 1.5 * cm, "Tern Island Reports, volume 12")
    canvas.drawRightString(A4[0] - 2.5 * cm, 1.3 * cm, f"page {document.page}")


def _chart(path: Path) -> None:
    image = Image.new("RGB", (960, 480), "white")
    draw = ImageDraw.Draw(image)
    draw.line([(60, 30), (60, 430), (930, 430)], fill="black", width=3)
    for year, (start, colour) in enumerate([(130, "firebrick"), (200, "goldenrod"), (260, "navy")]):
        points = [
            (60 + week * 72, start + 8 * week + 14 * math.sin(week + year)) for week in range(13)
        ]
        draw.line(points, fill=colour, width=5)
    image.save(path)


if __name__ == "__main__":
    maintenance_report(HERE / "maintenance-report.docx")
    season_review(HERE / "season-review.pptx")
    supplies(HERE / "supplies.xlsx")
    study(HERE / "tern-study.pdf")
