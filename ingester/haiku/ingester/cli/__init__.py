"""The `haiku-ingester` command.

Exit codes: 0 done; 1 something failed (for `run-batch`: an item, or a source that could not be
read); 2 wrong usage or configuration, a plan that is refused, a name that no tag may have; 3 what
was named is not there (items database, item, source); 4 a source with `required: true` is missing;
5 the control API's port is taken.

Rules: results go to standard output, everything else to standard error; `--json` prints one JSON
value; file names are shown decoded with control characters escaped. Nothing heavy is imported
before a command runs, so that `--help` answers at once.

`status`, `items`, `failed` and `source` use the items database, not the daemon: they work while it
is down. What they ask of a running daemon they write there, and it looks twice a second.
"""

from __future__ import annotations

from haiku.ingester.cli.commands import app


def main() -> None:
    """Entry point of `haiku-ingester`."""
    app()
