"""Items, sources, requests."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the three tables."""
    op.create_table(
        "items",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("source_id", sa.String(255), nullable=False),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("counter", sa.BigInteger, nullable=False),
        sa.Column("claimed_counter", sa.BigInteger, nullable=False),
        sa.Column("done_counter", sa.BigInteger, nullable=False),
        sa.Column("observed_mark", sa.Text, nullable=False),
        sa.Column("indexed_mark", sa.Text),
        sa.Column("size", sa.BigInteger),
        sa.Column("identity", sa.String(255)),
        sa.Column("skip", sa.String(64)),
        sa.Column("content_hash", sa.String(64)),
        sa.Column("fingerprint", sa.Text),
        sa.Column("document_id", sa.String(36)),
        sa.Column("chunk_count", sa.Integer),
        sa.Column("tried_fingerprint", sa.Text),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("crashes", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", sa.Double, nullable=False),
        sa.Column("lease_owner", sa.String(64)),
        sa.Column("lease_token", sa.String(36)),
        sa.Column("lease_until", sa.Double),
        sa.Column("moved_from", sa.Text),
        sa.Column("held_by", sa.Text),
        sa.Column("stage", sa.String(16)),
        sa.Column("code", sa.String(64)),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.Column("indexed_at", sa.Double),
        sa.UniqueConstraint("source_id", "uri", name="items_source_uri"),
    )
    op.create_index("items_queue", "items", ["state", "source_id", "priority", "next_attempt_at"])
    op.create_index("items_held", "items", ["source_id", "held_by"])
    op.create_index("items_identity", "items", ["source_id", "identity"])
    op.create_table(
        "sources",
        sa.Column("source_id", sa.String(255), primary_key=True),
        sa.Column("suspended_count", sa.Integer),
        sa.Column("suspended_since", sa.Double),
        sa.Column("suspended_reason", sa.Text),
        sa.Column("swept_at", sa.Double),
        sa.Column("lease_owner", sa.String(64)),
        sa.Column("lease_until", sa.Double),
    )
    op.create_table(
        "requests",
        sa.Column("source_id", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
    )
