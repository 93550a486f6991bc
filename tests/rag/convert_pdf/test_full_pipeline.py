"""Docling's full PDF pipeline: with no weights here, its own code around models of the test's."""

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haiku.rag.convert import models, paged
from haiku.rag.convert.options import ConvertOptions
from haiku.rag.exceptions import DocumentEncrypted, ModelsUnavailable

FULL = ConvertOptions(pdf_pipeline="docling")


@pytest.fixture(autouse=True)
def no_pipeline() -> Iterator[None]:
    """A process that has built no pipeline yet."""
    paged._pipeline.cache_clear()
    yield
    paged._pipeline.cache_clear()


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that the extra is installed."""
    real = models.version
    monkeypatch.setattr(models, "version", lambda name: "1" if name == "docling" else real(name))


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that has every file which is looked for, and no weights."""
    for file in models.NEEDED.values():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"model": {"type": "tableformer"}}))
    monkeypatch.setenv("DOCLING_ARTIFACTS_PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the models: one that finds a heading and a text on each page."""
    from docling.models.inference_engines.object_detection import ObjectDetectionEngineOutput
    from docling.models.stages.layout import layout_object_detection_model as layout
    from docling.models.stages.table_structure import table_structure_model as table
    from docling.pipeline import standard_pdf_pipeline as standard

    class Engine:
        def initialize(self) -> None: ...

        def get_label_mapping(self) -> dict[int, str]:
            return {0: "text", 1: "section_header"}

        def predict_batch(self, batch: list[Any]) -> list[ObjectDetectionEngineOutput]:
            return [self._halves(*given.image.size) for given in batch]

        def _halves(self, width: int, height: int) -> ObjectDetectionEngineOutput:
            cut = 0.122 * height  # below the title
            return ObjectDetectionEngineOutput(
                label_ids=[1, 0],
                scores=[0.9, 0.9],
                bboxes=[[0, 0, width, cut], [0, cut, width, height]],
            )

    monkeypatch.setattr(layout, "create_object_detection_engine", lambda **_: Engine())
    # Docling's own factory imports torch for the table models that are not asked for.
    tables = types.SimpleNamespace(create_instance=table.TableStructureModel)
    monkeypatch.setattr(standard, "get_table_structure_factory", lambda **_: tables)
    monkeypatch.setattr(table, "decide_device", lambda _: "cpu")
    common = types.SimpleNamespace(read_config=lambda path: json.loads(Path(path).read_text()))
    predictor = types.SimpleNamespace(TFPredictor=lambda *_: None)
    room = types.SimpleNamespace(common=common)
    for name, module in {
        "": types.SimpleNamespace(tableformer=room),
        ".tableformer": room,
        ".tableformer.common": common,
        ".tableformer.data_management": types.SimpleNamespace(tf_predictor=predictor),
        ".tableformer.data_management.tf_predictor": predictor,
    }.items():
        monkeypatch.setitem(sys.modules, f"docling_ibm_models{name}", module)


@pytest.mark.usefixtures("extra", "weights", "fakes")
def test_a_document_goes_through(pdf: Callable[[str], Path]) -> None:
    notes: list[str] = []
    _, document = paged.convert_pdf(pdf("headings"), "headings.pdf", FULL, notes)
    found = [(item.label.value, item.text, item.prov[0].page_no) for item in document.texts]
    assert found[0] == ("section_header", "The Harbour Handbook", 1)
    assert found[1][0] == "text"
    assert found[1][1].startswith("1 Chapter about part 1")
    assert notes == []


@pytest.mark.usefixtures("extra")
def test_missing_models_are_named_and_no_fault_of_the_document(
    pdf: Callable[[str], Path], weights: Path
) -> None:
    (weights / models.NEEDED["layout"]).unlink()
    with pytest.raises(ModelsUnavailable) as caught:
        paged.convert_pdf(pdf("headings"), "headings.pdf", FULL, [])
    said = str(caught.value)
    assert f"docling-tools models download layout -o {weights}" in said
    assert "tableformer" not in said
    assert "pdf_pipeline to native" in said
    assert caught.value.retryable


@pytest.mark.usefixtures("extra", "weights")
def test_models_that_cannot_be_loaded_are_no_fault_of_the_document(
    pdf: Callable[[str], Path],
) -> None:
    # Without torch, or with it and no weights in the folder.
    with pytest.raises(ModelsUnavailable, match="cannot be started"):
        paged.convert_pdf(pdf("headings"), "headings.pdf", FULL, [])


def test_without_the_extra_it_is_named(
    pdf: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "version", lambda _: None)
    with pytest.raises(ModelsUnavailable, match=r"haiku-rag-core\[models\]"):
        paged.convert_pdf(pdf("headings"), "headings.pdf", FULL, [])


def test_a_locked_document_is_told_without_models(pdf: Callable[[str], Path]) -> None:
    with pytest.raises(DocumentEncrypted):
        paged.convert_pdf(pdf("encrypted"), "encrypted.pdf", FULL, [])
