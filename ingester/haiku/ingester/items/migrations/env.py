"""Runs the migrations on the connection that the caller hands over, in its transaction."""

from alembic import context

from haiku.ingester.items import tables

context.configure(
    connection=context.config.attributes["connection"], target_metadata=tables.metadata
)
context.run_migrations()
