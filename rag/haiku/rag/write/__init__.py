"""The write path: from bytes to one commit.

    fetch → prepare (convert + chunk, in a worker process) → revise (reuse or embed) → commit

In: files, text, or ready-made Docling documents. Out: changes in the store. Rules: the client
writes batches of one or of n, the daemon a stream of them, both through the same `Writer` and
`GroupCommitter`; nothing here blocks the event loop; nothing a reader sees changes before the
commit.
"""

from haiku.rag.write.group import GroupCommitter
from haiku.rag.write.prepared import Prepared
from haiku.rag.write.writer import Writer, todays_fingerprint

__all__ = ["GroupCommitter", "Prepared", "Writer", "todays_fingerprint"]
