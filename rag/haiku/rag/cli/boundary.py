"""Where errors end: an error of ours becomes one message and an exit code."""

from __future__ import annotations

import functools
import shlex
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer

from haiku.rag import exceptions
from haiku.rag.cli import PIPE_CLOSED
from haiku.rag.cli.escaping import shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from haiku.rag.client import HaikuRAG

P = ParamSpec("P")

#: Exit codes; the package's docstring says what they mean.
FAILED, USAGE, NOT_THERE, ALREADY_THERE, TRY_AGAIN, INTERRUPTED = 1, 2, 3, 4, 5, 130

_CODES: dict[type[exceptions.HaikuRAGError], int] = {
    exceptions.ConfigError: USAGE,
    exceptions.FilterError: USAGE,
    exceptions.IdentityMismatch: USAGE,
    exceptions.SchemaMismatch: USAGE,
    exceptions.TagNameRefused: USAGE,
    exceptions.DatabaseNotFound: NOT_THERE,
    exceptions.DocumentNotFound: NOT_THERE,
    exceptions.TagNotFound: NOT_THERE,
    exceptions.StateNotKept: NOT_THERE,
    exceptions.DatabaseExists: ALREADY_THERE,
    exceptions.TagExists: ALREADY_THERE,
    exceptions.DocumentExists: ALREADY_THERE,
}


def exit_code(error: exceptions.HaikuRAGError) -> int:
    """The exit code of an error of ours."""
    if error.retryable:
        return TRY_AGAIN
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say what is wrong on standard error, and exit."""
    print(f"haiku-rag: {shown(message)}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)


def guarded(command: Callable[P, Coroutine[Any, Any, None] | None]) -> Callable[P, None]:
    """A command, run to its end, whose known failures end as one message and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            work = command(*args, **kwargs)
            if work is not None:
                import asyncio

                asyncio.run(work)
        except exceptions.HaikuRAGError as error:
            fail(str(error), exit_code(error))
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except BrokenPipeError:
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            fail(str(error))

    return run


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Which database a command works on, and how."""

    db: str | None
    #: The configuration file; None: the usual places.
    config: Path | None
    #: Refuse every write.
    read_only: bool
    #: A state of the past to read: a tag, a version or a time; None: today's.
    as_of: str | None = None

    def command(self, *words: str) -> str:
        """A command for the same database, as it can be pasted into a shell."""
        db = ["--db", self.db] if self.db is not None else []
        config = ["--config", str(self.config)] if self.config is not None else []
        return shlex.join(["haiku-rag", *words, *db, *config])

    @asynccontextmanager
    async def client(
        self, *, writes: bool = False, searches: bool = False
    ) -> AsyncIterator[HaikuRAG]:
        """The open database. A command that does not write cannot write.

        For one that searches, the embedder is loaded while the database is opened.
        """
        import asyncio

        from haiku.rag.client import HaikuRAG
        from haiku.rag.config import load_config

        read_only = self.read_only or not writes
        config = load_config(self.config)
        client = HaikuRAG(self.db, config=config, read_only=read_only, as_of=self.as_of)
        warming = asyncio.create_task(client.warm()) if searches else None
        try:
            async with client:
                yield client
        finally:
            if warming is not None:
                # What is wrong with the embedder, the search itself has said.
                await asyncio.gather(warming, return_exceptions=True)
