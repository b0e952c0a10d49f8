"""Versions with every figure, a history of canons, and keys that may manage canons or are limited in rate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_VERSIONS = ("oracle_version", "normalization_version", "distance_version")


def upgrade() -> None:
    # Null in rows from before: what was not recorded is not made up.
    op.add_column("runs", sa.Column("distance_version", sa.String(80)))
    for name in _VERSIONS:
        op.add_column("metrics", sa.Column(name, sa.String(80)))
    op.add_column("api_keys", sa.Column("per_minute", sa.Integer))
    op.add_column("api_keys", sa.Column("manages", sa.Boolean))
    op.create_table(
        "canon_events",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("prompt_id", sa.String(200), nullable=False, index=True),
        sa.Column("record", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("canon_events")
    for table, names in {
        "api_keys": ("manages", "per_minute"),
        "metrics": _VERSIONS,
        "runs": ("distance_version",),
    }.items():
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
