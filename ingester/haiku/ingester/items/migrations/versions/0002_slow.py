"""Items whose conversion is slow."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; nothing is known to be slow yet."""
    op.add_column("items", sa.Column("slow", sa.Integer, nullable=False, server_default="0"))
