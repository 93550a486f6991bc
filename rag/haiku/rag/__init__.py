"""haiku.rag: search your own documents and trust the answer.

The façade is `haiku.rag.client.HaikuRAG`. Nothing heavy is imported here, so that a command's
`--help` answers at once.
"""

from haiku.rag.version import __version__

__all__ = ["__version__"]
