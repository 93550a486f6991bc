"""Scheduled jobs: the slot each has done last, and who is at one."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table; jobs are known from the moment a daemon first counts their slots."""
    op.create_table(
        "schedules",
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("done_until", sa.Double, nullable=False),
        sa.Column("begun_at", sa.Double),
        sa.Column("begun_until", sa.Double),
        sa.Column("begun_slot", sa.String(32)),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("slot", sa.String(32)),
        sa.Column("outcome", sa.String(16)),
        sa.Column("detail", sa.Text),
        sa.Column("ended_at", sa.Double),
        sa.Column("succeeded_at", sa.Double),
        sa.Column("lease_owner", sa.String(64)),
        sa.Column("lease_until", sa.Double),
    )
