"""The first tables. Written out rather than taken from `skyt.serve.database.tables`, which will move on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_FIGURES = (
    "R_raw R_anchor mu_pre mu_post delta_R_anchor delta_mu P_tau_pre P_tau_post delta_P_tau rescue_rate tau"
)


def upgrade() -> None:
    op.create_table(
        "ledgers",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("next_sample", sa.BigInteger, nullable=False),
        sa.Column("next_run", sa.Integer, nullable=False),
        sa.Column("closed_at", sa.String(40)),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(240), primary_key=True),
        sa.Column("ledger", sa.String(200), sa.ForeignKey("ledgers.name"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("prompt_id", sa.String(200), nullable=False),
        sa.Column("mode", sa.String(40), nullable=False),
        sa.Column("timestamp", sa.String(40), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("temperature", sa.Float, nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("oracle_version", sa.String(80), nullable=False),
        sa.Column("normalization_version", sa.String(80), nullable=False),
        sa.Column("contract_id", sa.String(200), nullable=False),
        sa.UniqueConstraint("ledger", "number"),
    )
    op.create_table(
        "canons",
        sa.Column("prompt_id", sa.String(200), primary_key=True),
        sa.Column("canon_signature", sa.String(64), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
    )
    op.create_table(
        "archived_canons",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("prompt_id", sa.String(200), nullable=False, index=True),
        sa.Column("canon_signature", sa.String(64), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("archived_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "samples",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("ledger", sa.String(200), sa.ForeignKey("ledgers.name"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("run_id", sa.String(240), sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("prompt_id", sa.String(200), nullable=False),
        sa.Column("normalization_version", sa.String(80), nullable=False),
        sa.Column("signature_pre", sa.String(64), nullable=False),
        sa.Column("signature_post", sa.String(64), nullable=False),
        sa.Column("d_pre", sa.Float, nullable=False),
        sa.Column("d_post", sa.Float, nullable=False),
        sa.Column("compliant_pre", sa.Boolean, nullable=False),
        sa.Column("compliant_post", sa.Boolean, nullable=False),
        sa.Column("evidence", sa.String(20), nullable=False),
        sa.Column("canon_signature", sa.String(64)),
        sa.Column("attempted", sa.Boolean, nullable=False),
        sa.Column("timestamp", sa.String(40), nullable=False),
        sa.Column("request_id", sa.String(40)),
        sa.Column("upstream_ms", sa.Float),
        sa.Column("overhead_ms", sa.Float),
        sa.Column("record", sa.Text, nullable=False),
        sa.UniqueConstraint("ledger", "number"),
    )
    op.create_index("samples_by_prompt", "samples", ["prompt_id", "id"])
    op.create_table(
        "answers",
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("idempotency_key", sa.String(200), nullable=False),
        sa.Column("body_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key_id", "idempotency_key"),
    )
    op.create_table(
        "metrics",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("ledger", sa.String(200), sa.ForeignKey("ledgers.name"), nullable=False),
        sa.Column("prompt_id", sa.String(200), nullable=False),
        sa.Column("timestamp", sa.String(40), nullable=False),
        sa.Column("N", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Float, nullable=False) for name in _FIGURES.split()),
    )
    op.create_index("metrics_by_prompt", "metrics", ["prompt_id", "id"])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("contracts", sa.Text),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("revoked_at", sa.String(40)),
    )


def downgrade() -> None:
    for name in (
        "api_keys",
        "metrics",
        "answers",
        "samples",
        "archived_canons",
        "canons",
        "runs",
        "ledgers",
    ):
        op.drop_table(name)
