"""From older layouts to today's: numbered steps, run by the first writer that opens a database.

A step brings the tables from its version to the next. It must be safe to run again: whoever is
killed within one leaves the version as it was, and the next writer starts that step over. One
process migrates at a time: it holds a lease in `settings`, which others watch by their own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from haiku.rag import ids
from haiku.rag.exceptions import SchemaMismatch
from haiku.rag.store import schema, settings
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from haiku.rag.store.settings import Settings
    from haiku.rag.store.tables import Tables

Step = Callable[["Tables"], None]

#: Version → the step that leads from it to the next.
STEPS: dict[int, Step] = {}

#: Seconds without a sign of life after which another's lease is taken over.
LEASE = 60.0
#: Seconds between looks at another's lease.
LOOK = 0.2
#: The key of the lease in `settings`: a random token, changed with every step.
KEY = "migration"


def migrate(tables: Tables) -> Settings:
    """Bring the database to `schema.SCHEMA_VERSION`, or wait until another process has.

    Blocking: run in a thread.

    Raises:
        SchemaMismatch: there is no step from its version.
    """
    token: str | None = None
    seen, since = "", clock()
    while True:
        dataset = tables.latest(schema.SETTINGS)
        values = settings.read(dataset)
        found = settings.parse(values, tables.database)
        holder = values.get(KEY, "")
        if found.schema_version >= schema.SCHEMA_VERSION:
            return found
        if holder != seen:
            seen, since = holder, clock()
        if token and holder == token:
            _step(tables, found.schema_version)
            token = _finish(tables, values, found.schema_version)
        elif not holder or clock() - since > LEASE:
            token = ids.new_token()
            settings.write(dataset, {**values, KEY: token})
        else:
            time.sleep(LOOK)


def _step(tables: Tables, version: int) -> None:
    step = STEPS.get(version)
    if step is None:
        raise SchemaMismatch(
            f"{tables.database} has schema version {version}, and there is no way from it to "
            f"{schema.SCHEMA_VERSION}; open it with the release it was made by and export it"
        )
    step(tables)


def _finish(tables: Tables, values: dict[str, str], version: int) -> str | None:
    """Record a step as done, keeping the lease if there are more; None when it was lost."""
    done = version + 1
    token = ids.new_token() if done < schema.SCHEMA_VERSION else ""
    changed = {
        **values,
        "schema_version": str(done),
        "min_reader": str(min(done, schema.MIN_READER)),
        "min_writer": str(min(done, schema.MIN_WRITER)),
        KEY: token,
    }
    dataset = tables.latest(schema.SETTINGS)
    if settings.read(dataset) != values:
        return None
    return token if settings.write(dataset, changed) else None
