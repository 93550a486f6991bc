"""What an error means for an item: whose fault it is, and whether trying again can help."""

from __future__ import annotations

from haiku.ingester.items.model import Failed, Retry, Skipped
from haiku.ingester.work.outages import part_of
from haiku.rag.exceptions import HaikuRAGError, SourceTooLarge, UnsupportedFormat

#: What a source does not want, rather than what went wrong.
_UNWANTED = (UnsupportedFormat, SourceTooLarge)


def verdict(error: HaikuRAGError, *, stage: str, fingerprint: str) -> Skipped | Failed | Retry:
    """The result of a claim that ended with `error`.

    An unsupported format or size is skipped; a retryable error, and one of what all items need,
    is tried again, not before the time the other side asked for; the rest is failed for this
    content and this pipeline.
    """
    reason = str(error) or type(error).__name__
    if isinstance(error, _UNWANTED):
        return Skipped(code=error.code, reason=reason, fingerprint=fingerprint)
    if error.retryable or part_of(error) is not None:
        after = getattr(error, "retry_after", None)
        return Retry(code=error.code, reason=reason, stage=stage, after=after)
    return Failed(code=error.code, reason=reason, stage=stage, fingerprint=fingerprint)


def why_empty(content_type: str | None, size: int | None) -> str:
    """Why a document that was converted has no text, for people."""
    if size == 0:
        return "the file is empty"
    kind = (content_type or "").split(";")[0]
    if kind == "application/pdf" or kind.startswith("image/"):
        return "no text; scanned pages need OCR"
    return "no text"
