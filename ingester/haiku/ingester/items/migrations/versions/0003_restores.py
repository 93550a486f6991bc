"""Restores of the database that sources wait for a person about."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; the epoch is learnt from the database at the next start."""
    op.add_column("sources", sa.Column("restore_epoch", sa.BigInteger))
    op.add_column("sources", sa.Column("held_since", sa.Double))
