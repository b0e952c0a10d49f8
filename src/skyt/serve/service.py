"""The service: everything a request needs, made once and closed in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import text

from homeostat.core.errors import UserError, nearest
from skyt.contracts.contract import Contract
from skyt.runs.canons import faults
from skyt.runs.judging.assess import Assessor, versions
from skyt.serve.anchoring.anchor import Anchor
from skyt.serve.anchoring.judge import Judge
from skyt.serve.anchoring.matching import Match, Matcher
from skyt.serve.anchoring.recorder import Recorder
from skyt.serve.auth import Guard, guarded, is_loopback
from skyt.serve.config import HttpUpstream, ServeConfig
from skyt.serve.database.live import prune, take_snapshot
from skyt.serve.database.store import Store
from skyt.serve.telemetry import Telemetry, log
from skyt.serve.tracing import flush, send_spans
from skyt.serve.upstream.endpoint import HttpUpstreamClient, Upstream
from skyt.serve.upstream.gate import Gate

_PRUNE_S = 600.0


class Service:
    """Made before the first request; `start` and `stop` run inside the event loop."""

    def __init__(
        self,
        config: ServeConfig,
        contracts: Mapping[str, Contract],
        *,
        re_anchor: Iterable[str] = (),
        upstream: Upstream | None = None,
    ) -> None:
        self.config = config
        for name in [*config.policies, *re_anchor]:
            if name not in contracts:
                raise UserError(f"unknown contract {name!r}; {nearest(name, contracts)}")
        self.telemetry = Telemetry()
        if config.tracing:
            send_spans()
        self.store = Store.open(config.database, versions(), config.durability)
        for name in re_anchor:
            self.store.archive(name)
        for name in contracts:
            self.store.get(name)  # refuses canons of other versions before anything is served
        if not is_loopback(config.host) and not guarded(self.store):
            raise UserError(
                f"host {config.host!r} can be reached by others and the database has no API key: make one "
                f"with `homeostat code keys add NAME --database …`, or serve on 127.0.0.1"
            )
        self.guard = Guard(self.store, config.limits.per_key_per_minute)
        self.matcher = Matcher(contracts)
        levels = {config.policy_of(name).evidence for name in contracts} or {config.policy.evidence}
        self.judge = Judge(config.measure, contracts, sorted(levels), config.judges, config.limits)
        self.telemetry.versions.info(self.judge.versions._asdict())
        self.recorder = Recorder(self.store)
        self.upstream = upstream or _upstream(config, self.telemetry)
        self.anchor = Anchor(config, self.store, self.judge, self.recorder, self.upstream, self.telemetry)
        self.gate = Gate(config.limits.max_active, config.limits.max_waiting, self.telemetry)
        self._chores: list[asyncio.Task[None]] = []
        self._hosts = self._known_hosts()
        self.is_stopping = False
        self._pinging = ThreadPoolExecutor(1, thread_name_prefix="health")
        try:
            self.examine_canons()
        except UserError:
            self.abandon()
            raise

    def examine_canons(self) -> None:
        """Refuse canons that do not comply, before anything is served; see `skyt.runs.canons`."""
        present = [(self.store.get(name), contract) for name, contract in self.matcher.contracts.items()]
        canons = [(canon, contract) for canon, contract in present if canon is not None]
        if canons:
            with Assessor(self.config.measure) as assessor:
                for canon, contract in canons:
                    self.anchor.accept(canon, faults(canon, contract, assessor.verdict))

    def abandon(self) -> None:
        """Let go of everything, when the service is not to start after all."""
        self.recorder.close()
        self.store.close()

    def stopping(self) -> None:
        """SIGTERM has come: samples that take long are cut short, so that their requests are answered."""
        self.is_stopping = True
        self.judge.stop_by(time.monotonic() + 0.3 * self.config.limits.shutdown_s)

    async def start(self) -> None:
        await self.judge.start()
        self._chores = [
            asyncio.create_task(self._every(self.config.snapshot_s, self._snapshot)),
            asyncio.create_task(self._every(_PRUNE_S, self._prune)),
        ]
        for contract in self.matcher.contracts.values():
            self.anchor.settle_later(Match(contract, "start"), self.config.policy_of(contract.id))
        if not guarded(self.store) and self.config.canons_from == "keys":
            waiting = [name for name in self.matcher.contracts if self.store.get(name) is None]
            way = "make a key, set canons with `homeostat code canon set`, or set canons_from: anyone"
            if waiting:
                log("outputs of requests without a key do not become canons", missing=waiting[:20], way=way)
        log("serving", upstream=self.upstream.name, contracts=len(self.matcher.contracts))

    async def stop(self) -> None:
        """Called when no request is left: whatever was accepted has been answered."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self.anchor.close()
        await self.judge.close()
        await self.upstream.close()
        await asyncio.to_thread(self.recorder.close)
        await asyncio.to_thread(self._snapshot)
        self._pinging.shutdown(wait=False, cancel_futures=True)
        self.store.close()
        await asyncio.to_thread(flush)
        log("stopped")

    async def ping(self) -> None:
        """Ask the database, in a thread that does nothing else."""

        def ask() -> None:
            with self.store.reading() as connection:
                connection.execute(text("SELECT 1"))

        await asyncio.get_running_loop().run_in_executor(self._pinging, ask)

    def knows_host(self, host: str) -> bool:
        return self._hosts is None or host.lower() in self._hosts

    def _known_hosts(self) -> frozenset[str] | None:
        """None: any. On loopback only its own names, so that no web page can reach us under another one."""
        allowed = {host.lower() for host in self.config.allowed_hosts}
        if is_loopback(self.config.host):
            return frozenset({"localhost", "127.0.0.1", "::1", self.config.host, *allowed})
        return frozenset({self.config.host, *allowed}) if allowed else None

    def _snapshot(self) -> None:
        take_snapshot(self.store, self.config.measure.tau)

    def _prune(self) -> None:
        retention = self.config.retention
        if retention.days is not None or retention.samples is not None:
            log("pruned", samples=prune(self.store, days=retention.days, keep=retention.samples))

    async def _every(self, seconds: float, chore: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await asyncio.to_thread(chore)
            except Exception as error:  # a database that is away for a while must not end the service
                log("chore failed", logging.WARNING, error=type(error).__name__)


def _upstream(config: ServeConfig, telemetry: Telemetry) -> Upstream:
    if isinstance(config.upstream, HttpUpstream):
        return HttpUpstreamClient(config.upstream, telemetry.attempt)
    from skyt.serve.upstream.local import LocalUpstreamModel

    return LocalUpstreamModel.load(config.upstream, telemetry.attempt)
