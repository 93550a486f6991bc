"""The parts of the main job run bare: what the daemon adds is measured against their sum."""

import asyncio
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path

from haiku.rag.config import AppConfig
from haiku.rag.write import worker
from haiku.rag.write.prepared import Prepared
from tests.bench.cost import Cost, spent


@dataclass(frozen=True)
class Parts:
    """The cost of each part on all cores, and how much there was."""

    convert: Cost
    embed: Cost
    append: Cost
    documents: int
    chunks: int

    @property
    def total(self) -> Cost:
        """All parts, one after another."""
        return self.convert + self.embed + self.append


def measure(files: list[Path], folder: Path, config: AppConfig) -> Parts:
    """Convert, embed and append the files with nothing in between."""
    convert, prepared = _convert(files, config)
    embed, vectors = asyncio.run(_embed(prepared, config))
    append = _append(prepared, vectors, folder, config)
    chunks = sum(len(p.chunks) for p in prepared)
    return Parts(convert, embed, append, len(files), chunks)


def _convert(files: list[Path], config: AppConfig) -> tuple[Cost, list[Prepared]]:
    """All cores convert and chunk, in processes that have imported everything."""
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with context.Pool(cores, initializer=worker.warm_up, initargs=(config,)) as pool:
        warm = [(str(files[0]), files[0].name, None, config)] * cores
        pool.starmap(worker.prepare_file, warm, chunksize=1)
        jobs = [(str(path), path.name, None, config) for path in files]
        with spent() as cost:
            prepared = pool.starmap(worker.prepare_file, jobs, chunksize=1)
        return cost, prepared


async def _embed(prepared: list[Prepared], config: AppConfig) -> tuple[Cost, list]:
    """Every text once, in one call to the embedder."""
    from haiku.rag.embed import create_embedder

    embedder = create_embedder(config.embeddings)
    await embedder.embed_documents(["warm up"])
    texts = [chunk.text for p in prepared for chunk in p.chunks]
    with spent() as cost:
        vectors = await embedder.embed_documents(texts)
    await embedder.close()
    return cost, vectors


def _append(prepared: list[Prepared], vectors, folder: Path, config: AppConfig) -> Cost:
    """The same rows, written once a table."""
    import lance

    from haiku.rag import ids
    from haiku.rag.embed import identity
    from haiku.rag.store.changes import NewRevision
    from haiku.rag.store.revisions import Rows

    with spent() as cost:
        rows, first = Rows(identity(config.embeddings.model)), 0
        for p in prepared:
            last = first + len(p.chunks)
            revision = NewRevision(
                revision=ids.new_id(),
                content=p.content,
                docling=p.docling,
                chunks=p.chunks,
                vectors=vectors[first:last],
                items=p.items,
            )
            rows.add(ids.new_id(), revision.revision, revision)
            first = last
        for name, table in rows.tables().items():
            lance.write_dataset(table, str(folder / f"{name}.lance"))
    return cost
