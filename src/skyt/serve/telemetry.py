"""What the service tells about itself: Prometheus metrics, and a log line per request without its content."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from homeostat.core.records import utc_now

LOGGER = "skyt.serve"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Telemetry:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.versions = Info(
            "skyt_versions", "Versions that distances and verdicts are valid for", registry=self.registry
        )
        self.requests = Counter(
            "skyt_requests", "Requests answered", ("route", "status"), registry=self.registry
        )
        self.upstream = Counter(
            "skyt_upstream_attempts",
            "Attempts at the upstream by outcome",
            ("outcome",),
            registry=self.registry,
        )
        self.samples = Counter(
            "skyt_samples",
            "Samples recorded by contract, policy and evidence",
            ("contract", "policy", "evidence"),
            registry=self.registry,
        )
        self.outcomes = Counter(
            "skyt_outcomes",
            "Anchored requests by contract and outcome: complied, retried, returned, refused",
            ("contract", "outcome"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "skyt_tokens",
            "Tokens of anchored requests as the upstream reports them, all attempts",
            ("contract", "kind"),
            registry=self.registry,
        )
        self.cost = Counter(
            "skyt_cost",
            "Cost of anchored requests where the upstream reports it",
            ("contract",),
            registry=self.registry,
        )
        self.upstream_seconds = Histogram(
            "skyt_upstream_seconds",
            "Time the upstream had a request",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.overhead_seconds = Histogram(
            "skyt_overhead_seconds",
            "Time a request took beside the upstream",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.not_judged = Counter(
            "skyt_not_judged",
            "Samples recorded without a verdict, by contract",
            ("contract",),
            registry=self.registry,
        )
        self.active = Gauge("skyt_active_requests", "Requests being worked on", registry=self.registry)
        self.waiting = Gauge("skyt_waiting_requests", "Requests waiting for a place", registry=self.registry)

    def attempt(self, outcome: str) -> None:
        self.upstream.labels(outcome).inc()

    def anchored(self, told: Mapping[str, Any]) -> None:
        """Count an answer by its field `skyt`."""
        contract = told["contract"]
        self.outcomes.labels(contract, told["outcome"]).inc()
        for sample in told["samples"]:
            self.samples.labels(contract, told["policy"], sample["evidence"]).inc()
            if sample["judged"] is False:
                self.not_judged.labels(contract).inc()
        for name in ("prompt", "completion"):
            self.tokens.labels(contract, name).inc(told["usage"].get(f"{name}_tokens", 0))
        self.cost.labels(contract).inc(told["usage"].get("cost", 0))

    def timed(self, kind: str, total_s: float, upstream_s: float) -> None:
        self.upstream_seconds.observe(upstream_s)
        self.overhead_seconds.labels(kind).observe(max(0.0, total_s - upstream_s))

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields given as `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": utc_now(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in (LOGGER, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == LOGGER else logging.WARNING)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    logging.getLogger(LOGGER).log(level, event, extra={"fields": fields})
