"""Alembic's side of the items database: each version's step to the next."""
