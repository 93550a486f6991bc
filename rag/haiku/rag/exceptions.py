"""Every way the library fails.

    HaikuRAGError
    ├── ConfigError                  the configuration cannot be used (names key and file)
    ├── StoreError
    │   ├── DatabaseNotFound         nothing at that path; opening never creates
    │   ├── DatabaseExists           `init` over an existing database
    │   ├── ReadOnly                 a write through a read-only client
    │   ├── DocumentExists           a document is already at that URI
    │   ├── DocumentNotFound         no document has that id or URI
    │   ├── IdentityMismatch         the embedder is not the one the vectors came from
    │   ├── SchemaMismatch           the database is older or newer than this program
    │   ├── TagNameRefused           no tag may have that name
    │   ├── TagExists                a tag of that name is there already, perhaps a partial one
    │   ├── TagNotFound              no tag has that name
    │   ├── TagUnusable              a partial tag names no state
    │   ├── StateNotKept             that version or time is not kept, or was cleaned up
    │   ├── DatabaseReplaced (retry) a rebuild has taken its place; open it again
    │   ├── SnapshotExpired (retry)  what a reader held was superseded long ago and removed
    │   ├── Conflict        (retry)  another writer changed the document first
    │   └── StoreBusy       (retry)  the commit kept losing against other writers
    ├── SourceError
    │   ├── SourceUnreadable         not found, no permission, not a regular file
    │   ├── SourceUnavailable (retry) a server or disk did not answer
    │   ├── SourceChanged   (retry)  the bytes changed while they were read
    │   └── SourceTooLarge           over `processing.max_file_size`
    ├── ConvertError
    │   ├── UnsupportedFormat        no converter takes this type
    │   ├── DocumentCorrupt          the bytes are not what their type promises
    │   ├── DocumentEncrypted        a password is needed
    │   ├── ConversionTimeout        over `processing.timeout`
    │   ├── ConversionCrashed        the worker died
    │   ├── ConversionMemory         over `processing.max_memory`
    │   ├── ConversionDeferred (retry) ended to let quicker documents pass
    │   ├── ModelsUnavailable (retry) the models that a conversion needs cannot be loaded
    │   └── WorkerUnavailable (retry) no worker could be started
    ├── EmbedError
    │   ├── EmbedderUnavailable (retry) no answer, or 408/429/5xx (`retry_after` in seconds)
    │   └── EmbedderRefused          credentials, model or request refused; wrong dimension
    │       └── RequestRefused       this request; its texts may pass in smaller ones
    └── FilterError                  a filter expression outside the accepted language

`error.retryable` is a property of the class: True means the same call may succeed later.
`error.code` is a short stable word for tables, metrics and JSON.
"""

from typing import ClassVar


class HaikuRAGError(Exception):
    """Root of the tree. The message says what happened, to what, and what to do."""

    #: The same call may succeed later without anything being changed by hand.
    retryable: ClassVar[bool] = False
    #: Short stable word, e.g. for a `failed(timeout)` state or a metric label.
    code: ClassVar[str] = "error"


class ConfigError(HaikuRAGError):
    """The configuration cannot be used."""

    code = "config"


class StoreError(HaikuRAGError):
    """Something about the database."""

    code = "store"


class DatabaseNotFound(StoreError):
    """There is no database at the path."""

    code = "not_found"


class DatabaseExists(StoreError):
    """A database is already at the path."""

    code = "exists"


class ReadOnly(StoreError):
    """A write was tried through a read-only client."""

    code = "read_only"


class DocumentExists(StoreError):
    """A document is already stored under the URI."""

    code = "document_exists"


class DocumentNotFound(StoreError):
    """No live document has the id or URI."""

    code = "document_not_found"


class IdentityMismatch(StoreError):
    """The configured embedder is not the one this database's vectors came from."""

    code = "identity"


class SchemaMismatch(StoreError):
    """The database was written by a version this program cannot read or write."""

    code = "schema"


class TagNameRefused(StoreError):
    """No tag may have that name."""

    code = "tag_name"


class TagExists(StoreError):
    """A tag of that name is there already, perhaps a partial one."""

    code = "tag_exists"


class TagNotFound(StoreError):
    """No tag has that name."""

    code = "tag_not_found"


class TagUnusable(StoreError):
    """The tag is missing on some tables and names no state that could be read or restored."""

    code = "tag_partial"


class StateNotKept(StoreError):
    """The version or time that was asked for is not kept any more, or never was."""

    code = "not_kept"


class SnapshotExpired(StoreError):
    """The versions of a snapshot that was held for long were removed; take a new one."""

    retryable = True
    code = "expired"


class DatabaseReplaced(StoreError):
    """A rebuild has taken the place of the database; opened again, it is the new one."""

    retryable = True
    code = "replaced"


class Conflict(StoreError):
    """Another writer changed the document after it was read."""

    retryable = True
    code = "conflict"


class StoreBusy(StoreError):
    """The commit lost against other writers too often."""

    retryable = True
    code = "busy"


class SourceError(HaikuRAGError):
    """Something about reading the bytes of a document."""

    code = "source"


class SourceUnreadable(SourceError):
    """The file or resource is not there, not allowed, or not something with bytes."""

    code = "unreadable"


class SourceUnavailable(SourceError):
    """A server, share or disk did not answer properly."""

    retryable = True
    code = "unavailable"


class SourceChanged(SourceError):
    """The bytes changed while they were being read."""

    retryable = True
    code = "changed"


class SourceTooLarge(SourceError):
    """Larger than the configured limit."""

    code = "too_large"


class ConvertError(HaikuRAGError):
    """The bytes did not become a document."""

    code = "convert"


class UnsupportedFormat(ConvertError):
    """No converter takes this type of content."""

    code = "unsupported"


class DocumentCorrupt(ConvertError):
    """The bytes are damaged, truncated, or not what their type promises."""

    code = "corrupt"


class DocumentEncrypted(ConvertError):
    """The document is protected by a password."""

    code = "encrypted"


class ConversionTimeout(ConvertError):
    """The conversion took longer than its deadline; its worker was ended."""

    code = "timeout"


class ConversionDeferred(ConvertError):
    """The conversion was slow while others waited, and was ended; it may have its full time."""

    retryable = True
    code = "slow"


class ConversionCrashed(ConvertError):
    """The worker process died during the conversion."""

    code = "crash"


class ConversionMemory(ConvertError):
    """The conversion needed more memory than a worker may use."""

    code = "memory"


class ModelsUnavailable(ConvertError):
    """The models that the conversion needs cannot be loaded: no fault of the document's."""

    retryable = True
    code = "models"


class WorkerUnavailable(ConvertError):
    """No conversion worker could be started, or the pool is closing."""

    retryable = True
    code = "worker"


class EmbedError(HaikuRAGError):
    """Text did not become vectors."""

    code = "embed"


class EmbedderUnavailable(EmbedError):
    """The embedder did not answer, or asked to be called later."""

    retryable = True
    code = "embedder_unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        #: Seconds the server asked to wait, when it said so.
        self.retry_after = retry_after


class EmbedderRefused(EmbedError):
    """The embedder refused the request, or answered something unusable."""

    code = "embedder_refused"


class RequestRefused(EmbedderRefused):
    """The request was too large, or one of its texts was refused: smaller requests may pass."""

    code = "request_refused"

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        #: The server said that the size was the reason, so that later requests should be smaller.
        self.too_large = too_large


class FilterError(HaikuRAGError):
    """A filter expression is outside the language that filters accept."""

    code = "filter"
