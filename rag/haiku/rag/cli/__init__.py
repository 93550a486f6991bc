"""The `haiku-rag` command.

In: arguments, standard input for `add -`. Out: results on standard output, as tables for people
or as one JSON value with `--json`; progress, notes and errors on standard error.

Exit codes:

    0    done
    1    failed; for `add-src`: at least one source failed
    2    wrong usage, filter, tag name or configuration; a database of another embedder or version
    3    what was named is not there: a database, a document, a tag, a state of the past
    4    what was to be made is already there: a database, a document, a file, a tag
    5    try again: another writer or a server was in the way
    130  interrupted
    141  whoever read the output has gone

Rules: an error of ours is one clear message, never a traceback; text from documents is shown with
its control characters escaped and never read as markup; without a terminal there are no colours,
no progress bar and no shortened columns. Nothing heavy is imported before a command runs, so that
`--help` answers at once.
"""

import os
import sys

#: Exit code when the reader of the output has gone, as after SIGPIPE.
PIPE_CLOSED = 141


def main() -> None:
    """Entry point of `haiku-rag`."""
    from haiku.rag.cli.commands import app
    from haiku.rag.cli.startup import without_pandas

    without_pandas()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code: str | int | None = 0
    try:
        app(prog_name="haiku-rag")
    except SystemExit as done:
        code = done.code
    if isinstance(code, str):  # what Python prints for such an exit
        print(code, file=sys.stderr)  # noqa: T201
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
    # Everything is closed. Taking down the interpreter and the engines' libraries as well would
    # keep a person waiting for a tenth of the whole command.
    os._exit(code or 0)
