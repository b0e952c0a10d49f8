"""The tables of a run's file and of the service's database.

A *ledger* is one numbered sequence of samples with its cells (`runs`): a run's file has one, a service keeps
one, each imported run is one. Canons belong to the service's database: one per prompt, by primary key. Whole
records are ASCII JSON text, so that NULs and lone surrogates in hostile outputs fit any database.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from skyt.records.columns import SUMMARY_COLUMNS

TABLES_VERSION = 2  # increase this when a table changes
metadata = MetaData()
_serial = BigInteger().with_variant(Integer, "sqlite")

tables = Table("tables", metadata, Column("version", Integer, primary_key=True))

ledgers = Table(
    "ledgers",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("created_at", String(40), nullable=False),
    Column("next_sample", BigInteger, nullable=False),
    Column("next_run", Integer, nullable=False),
    Column("closed_at", String(40)),  # re-anchoring closes a ledger: distances to two canons do not mix
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(240), primary_key=True),
    Column("ledger", ForeignKey("ledgers.name"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("prompt_id", String(200), nullable=False),
    Column("mode", String(40), nullable=False),
    Column("timestamp", String(40), nullable=False),
    Column("model", Text, nullable=False),
    Column("temperature", Float, nullable=False),
    Column("seed", BigInteger),
    Column("oracle_version", String(80), nullable=False),
    Column("normalization_version", String(80), nullable=False),
    Column("contract_id", String(200), nullable=False),
    Column("distance_version", String(80), nullable=False),
    UniqueConstraint("ledger", "number"),
)

canons = Table(
    "canons",
    metadata,
    Column("prompt_id", String(200), primary_key=True),
    Column("canon_signature", String(64), nullable=False),
    Column("record", Text, nullable=False),
)

archived_canons = Table(
    "archived_canons",
    metadata,
    Column("id", _serial, primary_key=True),
    Column("prompt_id", String(200), nullable=False, index=True),
    Column("canon_signature", String(64), nullable=False),
    Column("record", Text, nullable=False),
    Column("archived_at", String(40), nullable=False),
)

canon_events = Table(
    "canon_events",
    metadata,
    Column("id", _serial, primary_key=True),
    Column("prompt_id", String(200), nullable=False, index=True),
    Column("record", Text, nullable=False),  # who did what with the canon, when and why
)

samples = Table(
    "samples",
    metadata,
    Column("id", _serial, primary_key=True),
    Column("ledger", ForeignKey("ledgers.name"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False),
    Column("prompt_id", String(200), nullable=False),
    Column("normalization_version", String(80), nullable=False),
    Column("signature_pre", String(64), nullable=False),
    Column("signature_post", String(64), nullable=False),
    Column("d_pre", Float, nullable=False),
    Column("d_post", Float, nullable=False),
    Column("compliant_pre", Boolean, nullable=False),
    Column("compliant_post", Boolean, nullable=False),
    Column("evidence", String(20), nullable=False),
    Column("canon_signature", String(64)),
    Column("timestamp", String(40), nullable=False),
    Column("request_id", String(40)),
    Column("upstream_ms", Float),
    Column("overhead_ms", Float),
    *(Column(name, BigInteger) for name in ("prompt_tokens", "completion_tokens")),
    Column("cost", Float),  # these three as the endpoint reports them
    Column("record", Text, nullable=False),  # the line of samples.jsonl
    UniqueConstraint("ledger", "number"),
    Index("samples_by_prompt", "prompt_id", "id"),
    CheckConstraint("0 <= d_post AND d_post <= d_pre AND d_pre <= 1", "repair_is_monotone"),
    CheckConstraint("canon_signature IS NOT NULL OR d_post = 1", "without_a_canon_d_is_1"),
    CheckConstraint("(d_pre = 0) = (signature_pre = canon_signature)", "d_pre_is_0_for_the_canon_alone"),
    CheckConstraint("(d_post = 0) = (signature_post = canon_signature)", "d_post_is_0_for_the_canon_alone"),
    CheckConstraint("(d_post = 0) = (evidence <> 'none')", "d_0_has_evidence"),
)

answers = Table(
    "answers",
    metadata,
    Column("key_id", String(40), nullable=False),
    Column("idempotency_key", String(200), nullable=False),
    Column("body_sha256", String(64), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("answer", Text, nullable=False),
    PrimaryKeyConstraint("key_id", "idempotency_key"),
)

_SHARES = SUMMARY_COLUMNS[SUMMARY_COLUMNS.index("R_raw") : SUMMARY_COLUMNS.index("tau") + 1]

metrics = Table(
    "metrics",
    metadata,
    Column("id", _serial, primary_key=True),
    Column("ledger", ForeignKey("ledgers.name"), nullable=False),
    Column("prompt_id", String(200), nullable=False),
    Column("timestamp", String(40), nullable=False),
    Column("N", BigInteger, nullable=False),
    *(Column(name, Float, nullable=False) for name in _SHARES),
    Column("oracle_version", String(80), nullable=False),
    Column("normalization_version", String(80), nullable=False),
    Column("distance_version", String(80), nullable=False),
    Index("metrics_by_prompt", "prompt_id", "id"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("contracts", Text),  # JSON list; null: every contract and pass-through
    Column("created_at", String(40), nullable=False),
    Column("revoked_at", String(40)),
    Column("per_minute", Integer),  # requests; null: the configuration's limit
    Column("manages", Boolean, nullable=False),  # whether the key may approve and re-anchor canons
)
