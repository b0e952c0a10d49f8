"""The guard's counters in vLLM's own metrics: `/metrics` of the server, and its periodic log line."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

# counter → what it counts; names end in _total as Prometheus wants
COUNTERS = {
    "fingerprinted": "Blocks fingerprinted as they were written",
    "verified": "Blocks compared with their fingerprints",
    "bad": "Blocks that had changed since they were written",
    "suspect": "Blocks that were computed from changed ones",
    "recomputed": "Blocks rewritten after they had been found bad",
    "unknown": "Blocks hit that had no fingerprint and were not audited",
    "audited": "Blocks judged against their tokens",
    "foreign": "Blocks that were not of their tokens",
    "implausible": "Blocks whose numbers could not be, as they were written",
    "stored": "Blocks written to the store",
    "loaded": "Blocks loaded from outside",
    "refused": "Stored blocks that were not served",
    "failed_steps": "Steps of requests that were discarded",
    "seconds": "Seconds spent by the guard",
}
GAUGE = "quarantine"


class GuardStats(KVConnectorStats):
    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def is_empty(self) -> bool:
        return not self.data

    def aggregate(self, other: KVConnectorStats) -> GuardStats:
        for name, value in other.data.items():
            self.data[name] = value if name == GAUGE else self.data.get(name, 0) + value
        return self

    def reduce(self) -> dict[str, int | float]:
        return {f"guard {name}": round(value, 4) for name, value in self.data.items()}


class GuardMetrics(KVConnectorPromMetrics):
    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine: Any) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine)
        made = {
            name: self._counter_cls(name=f"homeostat_guard_{name}", documentation=text, labelnames=labelnames)
            for name, text in COUNTERS.items()
        }
        made[GAUGE] = self._gauge_cls(
            name=f"homeostat_guard_{GAUGE}", documentation="Blocks in quarantine", labelnames=labelnames
        )
        self._by_engine = {
            engine: {name: metric.labels(*values) for name, metric in made.items()}
            for engine, values in per_engine.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, metric in self._by_engine[engine_idx].items():
            if name == GAUGE and name in transfer_stats_data:
                metric.set(transfer_stats_data[name])
            elif name in transfer_stats_data:
                metric.inc(transfer_stats_data[name])
