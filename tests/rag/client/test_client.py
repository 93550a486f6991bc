"""The façade on a real database, with the real embedder and real workers."""

import asyncio
import shutil
from pathlib import Path

import pytest
import pytest_asyncio

from haiku.rag.client import DocumentImport, HaikuRAG
from haiku.rag.config import AppConfig
from haiku.rag.exceptions import (
    Conflict,
    DatabaseNotFound,
    DocumentExists,
    DocumentNotFound,
    EmbedderRefused,
    FilterError,
    HaikuRAGError,
    IdentityMismatch,
    ReadOnly,
    SourceUnreadable,
)
from haiku.rag.models import Chunk

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = AppConfig.model_validate({"processing": {"workers": 1}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    """One client for the module: starting a worker takes seconds."""
    path = tmp_path_factory.mktemp("client") / "db.lancedb"
    async with HaikuRAG(path, config=CONFIG, create=True) as client:
        yield client


# --- opening ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
async def test_opening_what_is_not_there_raises_and_creates_nothing(tmp_path, kind):
    path = tmp_path / "folder" / "absent.lancedb"
    with pytest.raises(DatabaseNotFound, match="haiku-rag init"):
        async with HaikuRAG(kind(path), config=CONFIG):
            pass
    with pytest.raises(DatabaseNotFound):
        async with HaikuRAG(kind(path), config=CONFIG, create=True, read_only=True):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [str, Path])
async def test_create_makes_it_and_opens_it_again(tmp_path, kind):
    path = kind(tmp_path / "new.lancedb")
    for _ in range(2):
        async with HaikuRAG(path, config=CONFIG, create=True) as made:
            assert await made.count_documents() == 0


async def test_another_embedder_is_refused(client):
    other = AppConfig.model_validate(
        {"embeddings": {"model": {"provider": "openai", "name": "x", "vector_dim": 8}}}
    )
    with pytest.raises(IdentityMismatch, match="all-MiniLM-L6-v2"):
        async with HaikuRAG(client.path, config=other):
            pass


async def test_a_client_that_was_not_entered_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="async with"):
        await HaikuRAG(tmp_path, config=CONFIG).count_documents()


async def test_read_only_refuses_every_write_and_changes_no_file(client, tmp_path):
    made = await client.create_document("Written before.", uri="ro:1")
    await client._store.upkeep()  # so that no upkeep of the writer's is under way in the copy
    copy = Path(shutil.copytree(client.path, tmp_path / "copy.lancedb"))
    before = _files(copy)
    async with HaikuRAG(copy, config=CONFIG, read_only=True) as reader:
        for write in (
            reader.create_document("x"),
            reader.create_document_from_source(__file__),
            reader.update_document(made.id, title="x"),
            reader.delete_document(made.id),
            reader.import_documents([]),
        ):
            with pytest.raises(ReadOnly, match="read"):
                await write
        assert (await reader.search("written before", limit=1))[0].document_id == made.id
        assert (await reader.get_document_by_uri("ro:1")).content == "Written before."
    assert _files(copy) == before


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# --- texts -----------------------------------------------------------------------------------


async def test_create_get_update_delete(client):
    made = await client.create_document(
        "# Ferry\n\nThe ferry leaves at nine.", uri="text:ferry", metadata={"year": 2026}
    )
    assert (made.title, made.metadata, made.chunk_count) == ("Ferry", {"year": 2026}, 1)
    assert await client.get_document_by_id(made.id) == made
    assert await client.get_document_by_uri("text:ferry") == made

    changed = await client.update_document(made.id, content="# Ferry\n\nIt leaves at ten.")
    assert changed.id == made.id
    assert changed.revision != made.revision
    assert changed.metadata == {"year": 2026}
    assert changed.created_at == made.created_at
    assert "ten" in (await client.get_document_by_id(made.id)).content

    named = await client.update_document(made.id, title="Boats", metadata={"year": 2027})
    assert (named.title, named.metadata) == ("Boats", {"year": 2027})
    assert named.revision == changed.revision
    assert "ten" in named.content

    assert await client.delete_document(made.id) is True
    assert await client.delete_document(made.id) is False
    assert await client.get_document_by_id(made.id) is None
    assert all(hit.document_id != made.id for hit in await client.search("ferry leaves at ten"))


async def test_a_given_title_survives_new_content(client):
    made = await client.create_document("# One\n\nText.", title="Mine")
    changed = await client.update_document(made.id, content="# Two\n\nText.")
    assert (made.title, changed.title) == ("Mine", "Mine")


async def test_formats_of_text(client):
    html = await client.create_document("<h1>Head</h1><p>Body &amp; soul.</p>", format="html")
    plain = await client.create_document("# no heading * here", format="plain")
    assert html.title == "Head"
    assert "Body & soul." in html.content.replace("&amp;", "&")
    assert plain.title is None
    with pytest.raises(ValueError, match="md, html, plain"):
        await client.create_document("x", format="pdf")


async def test_a_taken_uri_is_refused_and_kept(client):
    await client.create_document("First.", uri="text:taken")
    with pytest.raises(DocumentExists, match="text:taken"):
        await client.create_document("Second.", uri="text:taken")
    assert (await client.get_document_by_uri("text:taken")).content == "First."


async def test_unknown_id(client):
    with pytest.raises(DocumentNotFound, match="nope"):
        await client.update_document("nope", title="x")
    assert await client.get_document_by_id("nope") is None


async def test_concurrent_creations_of_one_uri_store_one(client):
    tries = [client.create_document(f"Text {n}.", uri="text:race") for n in range(6)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    won = [r for r in results if not isinstance(r, Exception)]
    assert len(won) == 1
    assert all(isinstance(r, DocumentExists) for r in results if r is not won[0])
    assert await client.count_documents("uri = 'text:race'") == 1


async def test_an_update_against_an_old_row_loses(client):
    made = await client.create_document("Base.", uri="text:cas")
    results = await asyncio.gather(
        *(client.update_document(made.id, content=f"Version {n}.") for n in range(4)),
        return_exceptions=True,
    )
    won = [r for r in results if not isinstance(r, Exception)]
    assert won
    assert all(isinstance(r, Conflict) for r in results if isinstance(r, Exception))
    assert (await client.get_document_by_id(made.id)).content in {d.content for d in won}


@pytest.mark.parametrize("name", ["O'Brien.md", "x' OR 1=1 --", "100%.md", 'a"b', "a\\b", "ä€😀"])
async def test_any_uri_is_only_a_name(client, name):
    count = await client.count_documents()
    made = await client.create_document("Quoted.", uri=f"odd:{name}")
    assert (await client.get_document_by_uri(f"odd:{name}")).id == made.id
    assert await client.delete_document(made.id)
    assert await client.count_documents() == count


# --- sources ---------------------------------------------------------------------------------


async def test_a_file_is_added_once_and_updated_in_place(client, tmp_path):
    path = tmp_path / "report [1] ä.md"
    path.write_text("# Report\n\nThe dam holds.")
    made = await client.create_document_from_source(path)
    again = await client.create_document_from_source(str(path))
    assert made.uri.startswith("file://")
    assert again == made
    assert await client.get_document_by_uri(path) == await client.get_document_by_uri(made.uri)

    path.write_text("# Report\n\nThe dam leaks.")
    changed = await client.create_document_from_source(made.uri)
    assert changed.id == made.id
    assert changed.revision != made.revision
    assert "leaks" in (await client.get_document_by_id(made.id)).content


async def test_the_same_bytes_with_new_metadata_are_not_converted(client, tmp_path):
    path = tmp_path / "meta.md"
    path.write_text("Text.")
    made = await client.create_document_from_source(path)
    told = await client.create_document_from_source(path, title="T", metadata={"k": 1})
    assert (told.id, told.revision) == (made.id, made.revision)
    assert (told.title, told.metadata) == ("T", {"k": 1})


async def test_every_file_of_a_folder_is_tried(client, tmp_path):
    for n in range(4):
        (tmp_path / f"good{n}.md").write_text(f"Good file {n}.")
    (tmp_path / "bad.docx").write_bytes(b"PK\x03\x04 not really")
    results = [result async for result in client.add_sources([tmp_path])]
    failed = [result for result in results if result.error]
    assert len(results) == 5
    assert [Path(result.uri).name for result in failed] == ["bad.docx"]
    assert all(result.document for result in results if not result.error)
    with pytest.raises(HaikuRAGError, match=r"bad\.docx"):
        await client.create_document_from_source(tmp_path)
    assert await client.count_documents(f"uri LIKE 'file://{tmp_path}/%'") == 4


async def test_a_folder_gives_a_list(client, tmp_path):
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    documents = await client.create_document_from_source(tmp_path)
    assert [Path(document.uri).name for document in documents] == ["a.txt", "b.txt"]


async def test_a_source_that_is_not_there(client, tmp_path):
    with pytest.raises(SourceUnreadable, match="absent"):
        await client.create_document_from_source(tmp_path / "absent.md")


async def test_a_page_over_http(client, httpserver):
    httpserver.expect_request("/page").respond_with_data(
        "<title>Harbour</title><h1>Harbour</h1><p>The crane is closed.</p>",
        content_type="text/html",
    )
    made = await client.create_document_from_source(httpserver.url_for("/page"))
    assert (made.uri, made.title) == (httpserver.url_for("/page"), "Harbour")
    assert (await client.search("when is the crane closed", limit=1))[0].document_id == made.id


async def test_a_copy_costs_no_embedding(client, tmp_path):
    text = "# Copy\n\nThe marten climbs the fir."
    (tmp_path / "one.md").write_text(text)
    (tmp_path / "two.md").write_text(text)
    await client.create_document_from_source(tmp_path / "one.md")
    writer = client._session.writer
    before = writer.embedded
    await client.create_document_from_source(tmp_path / "two.md")
    assert writer.embedded == before
    assert await client.count_documents(f"uri LIKE 'file://{tmp_path}/%'") == 2


# --- ready-made ------------------------------------------------------------------------------


async def test_steps_one_by_one_equal_the_whole(client):
    text = "# Steps\n\nFirst the conversion.\n\n## Then\n\nThe chunks."
    document = await client.convert(text, format="md")
    chunks = await client.chunk(document)
    made = await client.import_document(document, chunks, uri="import:steps")
    whole = await client.create_document(text, uri="import:whole")
    assert made.title == whole.title == "Steps"
    assert made.content == whole.content
    assert made.chunk_count == whole.chunk_count == len(chunks)
    assert (await client.search("the conversion", limit=1))[0].content == "First the conversion."


async def test_convert_takes_paths(client, tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# Path\n\nText.")
    for source in (path, str(path), path.as_uri()):
        assert (await client.convert(source)).texts[0].text == "Path"


async def test_own_chunks_and_embeddings(client):
    document = await client.convert("Anything.", format="md")
    vector = [0.0] * 383 + [1.0]
    chunks = [Chunk(content="Mine alone.", embedding=vector), Chunk(content="Embedded here.")]
    made = await client.import_document(document, chunks, uri="import:own")
    assert made.chunk_count == 2
    found = await client.search("embedded here", limit=1)
    assert (found[0].document_id, found[0].content) == (made.id, "Embedded here.")
    assert found[0].doc_item_refs == []
    assert await client.expand_context(found) == found
    with pytest.raises(EmbedderRefused, match="3 numbers"):
        await client.import_document(document, [Chunk(content="x", embedding=[1.0, 2.0, 3.0])])


async def test_imports_are_all_or_none(client):
    document = await client.convert("Anything.", format="md")
    await client.import_document(document, uri="import:there")
    count = await client.count_documents()
    items = [DocumentImport(document=document, uri=uri) for uri in ("import:a", "import:there")]
    with pytest.raises(DocumentExists, match="import:there"):
        await client.import_documents(items)
    with pytest.raises(DocumentExists, match="import:twice"):
        await client.import_documents([DocumentImport(document=document, uri="import:twice")] * 2)
    assert await client.count_documents() == count
    rows = await client.import_documents(
        [DocumentImport(document=document, uri=f"import:{n}") for n in range(3)]
    )
    assert [row.uri for row in rows] == ["import:0", "import:1", "import:2"]


async def test_new_chunks_for_a_document(client):
    made = await client.create_document("# Keep\n\nThe text stays.", uri="text:chunks")
    changed = await client.update_document(made.id, chunks=[Chunk(content="Only this is found.")])
    assert changed.content == made.content
    assert changed.chunk_count == 1
    found = await client.search("only this is found", limit=1)
    assert found[0].document_id == made.id


# --- reading ---------------------------------------------------------------------------------


async def test_listing_pages_and_filters(client):
    for n in range(5):
        await client.create_document(f"Listed {n}.", uri=f"list:{n}", title=f"Number {n}")
    listed = await client.list_documents(filter="uri LIKE 'list:%'")
    assert [d.uri for d in listed] == [f"list:{n}" for n in (4, 3, 2, 1, 0)]
    page = await client.list_documents(limit=2, offset=1, filter="uri LIKE 'list:%'")
    assert [d.uri for d in page] == ["list:3", "list:2"]
    assert all(d.content == "" for d in listed)
    assert await client.count_documents("title IN ('Number 1', 'Number 2')") == 2
    with pytest.raises(FilterError):
        await client.list_documents(filter="1=1; DROP TABLE x")


@pytest.mark.parametrize("kind", ["hybrid", "vector", "fts"])
async def test_search_finds_filters_and_orders(client, kind):
    await client.create_document("The heron waits in the reeds.", uri=f"search:{kind}:a")
    await client.create_document("The heron fishes at dusk.", uri=f"search:{kind}:b")
    hits = await client.search("heron in the reeds", search_type=kind, limit=3)
    assert "reeds" in hits[0].content
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    only = await client.search(
        "heron in the reeds", search_type=kind, filter=f"uri = 'search:{kind}:b'"
    )
    assert [h.document_uri for h in only] == [f"search:{kind}:b"]


async def test_the_configured_limit_holds(client):
    assert len(await client.search("text")) <= CONFIG.search.limit
    assert len(await client.search("text", limit=2)) == 2


async def test_expansion_brings_the_section(client):
    text = "# Doc\n\n## Eels\n\n" + "\n\n".join(f"Sentence {n} about eels." for n in range(30))
    await client.create_document(text, uri="expand:1")
    hits = await client.search("sentence 7 about eels", limit=1, filter="uri = 'expand:1'")
    (expanded,) = await client.expand_context(hits)
    assert "Sentence 0 about eels." in expanded.content
    assert "Sentence 29 about eels." in expanded.content
    assert len(expanded.content) <= CONFIG.search.max_context_chars


# F68
async def test_another_client_sees_a_commit_at_once(client):
    async with HaikuRAG(client.path, config=CONFIG, read_only=True) as reader:
        await reader.count_documents()
        made = await client.create_document("Fresh as dew.", uri="fresh:1")
        assert (await reader.get_document_by_id(made.id)).uri == "fresh:1"
        assert (await reader.search("fresh as dew", limit=1))[0].document_id == made.id
