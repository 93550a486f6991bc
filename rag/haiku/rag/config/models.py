"""The settings, one section a class. Every field's description is its line in the reference."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class Section(BaseModel):
    """Common to all sections: unknown keys are refused, defaults are checked as well."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True)


class StorageConfig(Section):
    """Where the database is and how long superseded data stays."""

    data_dir: Path | None = Field(
        None,
        description="Folder of the database; null: the user's data folder for haiku.rag.",
    )
    collect_after: float = Field(
        120.0,
        gt=0,
        description="Seconds a replaced revision stays readable before upkeep may collect it.",
    )
    compact_every: int = Field(
        50, ge=1, description="Commits between compactions of document_meta by the writer."
    )
    max_unindexed_rows: int = Field(
        5000,
        ge=1,
        description="Rows outside an index before the writer brings it up to date.",
    )
    upkeep_memory: int = Field(
        256_000_000,
        ge=200_000_000,
        description="Bytes of memory that rewriting data may take; what needs more is left.",
    )
    history: float = Field(
        86_400.0,
        ge=0,
        description="Seconds for which superseded versions can be read as of a time; never less "
        "than collect_after.",
    )
    vacuum_keep: Literal["since_oldest_tag", "tagged"] = Field(
        "since_oldest_tag",
        description="since_oldest_tag: versions newer than the oldest tag stay as well; tagged: "
        "beyond history only the tagged ones.",
    )
    keep_deleted: float = Field(
        7.0,
        ge=0,
        description="Days for which the row of a deleted document is remembered.",
    )


class EmbeddingModelConfig(Section):
    """The model that turns text into vectors."""

    provider: str = Field(
        "local",
        description="local (embedded, no server), openai, ollama or sentence-transformers.",
    )
    name: str = Field("all-MiniLM-L6-v2", description="Model name as the provider knows it.")
    vector_dim: int = Field(384, ge=1, description="Length of a vector.")
    base_url: str | None = Field(
        None, description="Server address; null: the provider's usual one."
    )
    api_key: SecretStr | None = Field(
        None, description="Key; null: the provider's usual environment variable."
    )
    max_tokens: int | None = Field(
        None, ge=8, description="The model's input limit in tokens; null: what is known of it."
    )
    tokenizer: Path | None = Field(
        None,
        description="A tokenizer.json to count tokens with; null: the model's own when known.",
    )
    multimodal: bool = Field(False, description="Text and pictures share the vector space.")


class EmbeddingBatchConfig(Section):
    """The limits of one embedding request."""

    max_items: int = Field(64, ge=1, description="Texts in one request.")
    max_tokens: int = Field(64_000, ge=1, description="Tokens in one request.")
    max_bytes: int = Field(1_000_000, ge=1, description="UTF-8 bytes of text in one request.")
    concurrency: int = Field(2, ge=1, description="Requests under way at once.")
    wait: float = Field(
        0.02, ge=0, description="Seconds to wait for more texts when a batch is not full."
    )


class EmbeddingsConfig(Section):
    """Embedding: model, batching, patience."""

    model: EmbeddingModelConfig = Field(default_factory=EmbeddingModelConfig)
    batch: EmbeddingBatchConfig = Field(default_factory=EmbeddingBatchConfig)
    timeout: float = Field(60.0, gt=0, description="Seconds for one request.")
    max_attempts: int = Field(5, ge=1, description="Tries of one request before it fails.")


class ProcessingConfig(Section):
    """From bytes to chunks."""

    chunk_size: int = Field(
        256,
        ge=16,
        description="Most tokens of a chunk with its headings; never above the model's limit.",
    )
    chunker_type: Literal["hybrid", "hierarchical"] = Field(
        "hybrid", description="hybrid: fills chunks up to chunk_size; hierarchical: one per item."
    )
    table_format: Literal["narrative", "markdown"] = Field(
        "narrative", description="How a table reads in a chunk: sentences per cell, or Markdown."
    )
    pdf_pipeline: Literal["auto", "native", "docling"] = Field(
        "auto",
        description="native: no model needed; docling: the full pipeline (extra `models`); "
        "auto: docling when its extra and its models are there, else native.",
    )
    workers: int = Field(0, ge=0, description="Conversion processes; 0: one a core, at least two.")
    timeout: float = Field(300.0, gt=0, description="Seconds one conversion may take.")
    max_memory: int = Field(
        4_000_000_000, ge=100_000_000, description="Bytes of memory one worker may use."
    )
    recycle_after: int = Field(
        500, ge=1, description="Conversions after which a worker is replaced."
    )
    max_file_size: int = Field(
        512_000_000, ge=1, description="Bytes; a larger file is refused with this reason."
    )


class SearchConfig(Section):
    """Retrieval."""

    limit: int = Field(5, ge=1, description="Hits a search returns.")
    max_context_chars: int = Field(
        5000, ge=1, description="Most characters of a hit after context expansion."
    )


class ModelConfig(Section):
    """A model by provider and name."""

    provider: str = Field("ollama", description="Provider of the model.")
    name: str = Field("gpt-oss", description="Model name as the provider knows it.")
    base_url: str | None = Field(
        None, description="Server address; null: the provider's usual one."
    )
    api_key: SecretStr | None = Field(
        None, description="Key; null: the provider's usual environment variable."
    )


class AnswerModelConfig(ModelConfig):
    """A model that answers."""

    vision: bool = Field(False, description="The model takes pictures.")


class RerankingConfig(Section):
    """Re-scoring of the hits of a search."""

    model: ModelConfig | None = Field(None, description="The cross-encoder; null: none.")


class QAConfig(Section):
    """Question answering."""

    model: AnswerModelConfig = Field(default_factory=AnswerModelConfig)


class ResearchConfig(Section):
    """The research graph. `ResearchConfig(provider=…, model="name")` is accepted as well."""

    model: AnswerModelConfig | None = Field(None, description="The model; null: that of qa.")
    max_iterations: int = Field(3, ge=1, description="Questions at most.")
    max_concurrency: int = Field(1, ge=1, description="Searches of one question at once.")

    @model_validator(mode="before")
    @classmethod
    def _nest_flat_model(cls, data: Any) -> Any:
        """Store the flat form (provider beside a model's name) as the nested one."""
        flat = isinstance(data, dict) and ("provider" in data or isinstance(data.get("model"), str))
        if not flat:
            return data
        rest = {key: value for key, value in data.items() if key not in ("provider", "model")}
        model = data.get("model")
        nested: dict[str, Any] = {"name": model} if isinstance(model, str) else dict(model or {})
        if "provider" in data:
            nested["provider"] = data["provider"]
        return {**rest, "model": nested}


class PromptsConfig(Section):
    """Text given to models."""

    domain_preamble: str = Field("", description="Put before the instructions of every agent.")


class AppConfig(Section):
    """Everything `haiku.rag` can be told; `haiku-ingester` checks its own section."""

    storage: StorageConfig = Field(default_factory=StorageConfig)
    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig)
    processing: ProcessingConfig = Field(default_factory=ProcessingConfig)
    search: SearchConfig = Field(default_factory=SearchConfig)
    reranking: RerankingConfig = Field(default_factory=RerankingConfig)
    qa: QAConfig = Field(default_factory=QAConfig)
    research: ResearchConfig = Field(default_factory=ResearchConfig)
    prompts: PromptsConfig = Field(default_factory=PromptsConfig)
    ingester: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the daemon; see its own section."
    )
