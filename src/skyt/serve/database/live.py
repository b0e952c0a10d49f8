"""The metrics of a ledger as it grows: computed by `skyt.metrics`, kept as snapshots; and pruning."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now
from skyt.contracts.defaults import DEFAULT_TAU
from skyt.metrics.formulas import Metrics, tally_of
from skyt.metrics.formulas import metrics as metrics_of
from skyt.records.store import USAGE
from skyt.records.tables import answers, canons, metrics, runs, samples
from skyt.serve.database.store import Store

WINDOW = 20_000  # latest samples of a prompt that live figures look at


@dataclass(frozen=True)
class Standing:
    """Where a prompt stands: its metrics over the latest samples, its canon, the time of its last sample."""

    prompt_id: str
    metrics: Metrics
    canon_signature: str | None
    fixed_at: str | None
    last_sample: str
    upstream_ms: float | None
    overhead_ms: float | None
    usage: dict[str, float]  # tokens and cost, where the endpoint reports them
    versions: dict[str, str | None]  # what the figures are valid for


def standings(store: Store, tau: float = DEFAULT_TAU, window: int = WINDOW) -> list[Standing]:
    """Every prompt with samples in the service's open ledger."""
    with store.reading() as connection:
        ledger = store.current_ledger(connection)
        prompts = connection.execute(
            select(samples.c.prompt_id)
            .where(samples.c.ledger == ledger)
            .distinct()
            .order_by(samples.c.prompt_id)
        ).scalars()
        return [_standing(connection, str(ledger), prompt, tau, window) for prompt in prompts]


def _standing(connection: Connection, ledger: str, prompt: str, tau: float, window: int) -> Standing:
    rows = connection.execute(
        select(
            samples.c.signature_pre,
            samples.c.d_pre,
            samples.c.d_post,
            samples.c.timestamp,
            samples.c.upstream_ms,
            samples.c.overhead_ms,
            *(samples.c[name] for name in USAGE),
        )
        .where(samples.c.ledger == ledger, samples.c.prompt_id == prompt)
        .order_by(samples.c.id.desc())
        .limit(window)
    ).all()
    signatures, d_pre, d_post, times, upstream, overhead, *usage = zip(*rows, strict=True)
    canon = connection.execute(select(canons.c.record).where(canons.c.prompt_id == prompt)).scalar()
    fixed = json.loads(canon) if canon else {}
    return Standing(
        prompt_id=prompt,
        metrics=metrics_of(tally_of(signatures, d_pre, d_post, tau), tau),
        canon_signature=fixed.get("canon_signature"),
        fixed_at=fixed.get("fixed_at_timestamp"),
        last_sample=times[0],
        upstream_ms=_median(upstream),
        overhead_ms=_median(overhead),
        usage={name: total for name, values in zip(USAGE, usage, strict=True) if (total := _sum(values))},
        versions=_versions(connection, ledger, prompt),
    )


def _versions(connection: Connection, ledger: str, prompt: str) -> dict[str, str | None]:
    """The versions of the prompt's newest run."""
    names = ("oracle_version", "normalization_version", "distance_version")
    row = connection.execute(
        select(*(runs.c[name] for name in names))
        .where(runs.c.ledger == ledger, runs.c.prompt_id == prompt)
        .order_by(runs.c.number.desc())
        .limit(1)
    ).first()
    return dict(zip(names, row, strict=True)) if row is not None else dict.fromkeys(names)


def take_snapshot(store: Store, tau: float = DEFAULT_TAU) -> int:
    """Append a row of `metrics` for every prompt whose number of samples changed since its last one."""
    now = utc_now()
    current = standings(store, tau)
    with store.engine.begin() as connection:
        ledger = store.current_ledger(connection)
        new = []
        for standing in current:
            last = connection.execute(
                select(metrics.c.N)
                .where(metrics.c.ledger == ledger, metrics.c.prompt_id == standing.prompt_id)
                .order_by(metrics.c.id.desc())
                .limit(1)
            ).scalar()
            if last != standing.metrics.N or standing.metrics.N >= WINDOW:
                row = {"ledger": ledger, "prompt_id": standing.prompt_id, "timestamp": now}
                new.append({**row, **asdict(standing.metrics), **standing.versions})
        if new:
            connection.execute(insert(metrics), new)
    return len(new)


def history(store: Store, prompt: str, limit: int = 500) -> list[dict[str, Any]]:
    """The snapshots of a prompt in the open ledger, oldest first."""
    with store.reading() as connection:
        rows = connection.execute(
            select(metrics)
            .where(metrics.c.ledger == store.current_ledger(connection), metrics.c.prompt_id == prompt)
            .order_by(metrics.c.id.desc())
            .limit(limit)
        ).mappings()
        return [{k: v for k, v in row.items() if k not in ("id", "ledger")} for row in reversed(list(rows))]


def latest(store: Store, prompt: str, limit: int = 20) -> list[dict[str, Any]]:
    """The newest samples of a prompt in the open ledger, newest first, as their records."""
    with store.reading() as connection:
        rows = connection.execute(
            select(samples.c.record, samples.c.timestamp, samples.c.request_id)
            .where(samples.c.ledger == store.current_ledger(connection), samples.c.prompt_id == prompt)
            .order_by(samples.c.id.desc())
            .limit(limit)
        )
        return [{**json.loads(r.record), "timestamp": r.timestamp, "request_id": r.request_id} for r in rows]


def prune(store: Store, *, days: float | None = None, keep: int | None = None) -> int:
    """Delete old samples (and answers kept for retries). Canons and metric snapshots are never touched."""
    if (days is not None and days <= 0) or (keep is not None and keep < 1):
        raise UserError("retention: days must be above 0 and samples at least 1")
    deleted = 0
    with store.engine.begin() as connection:
        if days is not None:
            limit = datetime.now(UTC) - timedelta(days=days)
            before = limit.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            deleted += connection.execute(delete(samples).where(samples.c.timestamp < before)).rowcount
            connection.execute(delete(answers).where(answers.c.created_at < before))
        if keep is not None:
            prompts = connection.execute(select(samples.c.prompt_id).distinct()).scalars().all()
            for prompt in prompts:
                oldest = connection.execute(
                    select(samples.c.id)
                    .where(samples.c.prompt_id == prompt)
                    .order_by(samples.c.id.desc())
                    .offset(keep - 1)
                    .limit(1)
                ).scalar()
                if oldest is not None:
                    deleted += connection.execute(
                        delete(samples).where(samples.c.prompt_id == prompt, samples.c.id < oldest)
                    ).rowcount
    return deleted


def count(store: Store) -> int:
    with store.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(samples)).scalar_one())


def _sum(values: tuple[float | None, ...]) -> float:
    return sum(value for value in values if value is not None)


def _median(values: tuple[float | None, ...]) -> float | None:
    known = sorted(value for value in values[:1000] if value is not None)
    return known[len(known) // 2] if known else None
