"""`wrap`: any `prompt -> text` callable becomes one that anchors and repairs.

    ask = skyt.wrap(generate, contract="gcd", store="runs/gcd-service")
    code = ask()                  # the canon if the answer is equivalent, else the nearest correct program
    sample = ask.sample()         # the same, with everything that is on record about it

A function may write wrong code, or none. `sample.compliant` says so; `wrap(…, on_failure="retry")` asks
again, and `on_failure="raise"` never hands out what does not comply.

Any number of processes may share a store: they agree on one canon, and each call adds one pre and one post
row. Calls before the first compliant output have no canon, so their distance is 1.0 by definition.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

from homeostat.core.config import parse_config
from homeostat.core.errors import UserError, nearest
from homeostat.core.records import Record, utc_now
from homeostat.core.rundir import RunDir, hold, open_run
from skyt.canon import Canon, CanonStore
from skyt.contracts.contract import Contract, load_contract
from skyt.generators.base import Generation
from skyt.metrics.summary import summarise
from skyt.metrics.table import RunMetrics
from skyt.records import Durability, RunRow, RunStore, write_files
from skyt.runs.canons import faults, new_canon, put_on_record, refuse, trusted_canons
from skyt.runs.config import WrapConfig
from skyt.runs.judging.assess import prepare, versions
from skyt.runs.judging.pool import JudgePool
from skyt.runs.measure import measured_with, stamped
from skyt.text.distance import get_distance

OnFailure = Literal["return", "retry", "raise"]
_PATIENCE_S = 30.0  # for another process that is opening the same store


@dataclass(frozen=True, repr=False)
class Anchored:
    """One answer: what to use, what the model wrote, and the sample's record."""

    code: str
    raw: str
    record: Record
    attempts: int = 1  # calls of the function that this answer took

    def __repr__(self) -> str:
        distances = f"d {self.record['d_pre']:.3f} → {self.record['d_post']:.3f}"
        return f"Anchored({distances}, evidence={self.evidence!r}, compliant={self.compliant})"

    @property
    def canonical(self) -> bool:
        return self.distance == 0.0

    @property
    def compliant(self) -> bool:
        """Whether the oracle accepts `code`."""
        return bool(self.record["oracle_post"]["compliant"])

    @property
    def evidence(self) -> str:
        """Why the canon may stand for the answer: `identical`, `rewritten`, `equivalent`, or `none`."""
        return str(self.record["evidence"])

    @property
    def distance(self) -> float:
        """The distance of `code` to the canon; 1.0 before there is one."""
        return float(self.record["d_post"])


class NotCompliantError(Exception):
    """No answer complies with the contract. `answer` is the last one."""

    def __init__(self, answer: Anchored) -> None:
        self.answer = answer
        name, count = answer.record["contract_id"], answer.attempts
        reason = next(iter(answer.record["oracle_post"]["failures"]), "it is not compliant")
        tried = f"none of {count} answers complies" if count > 1 else "the answer does not comply"
        super().__init__(f"{name}: {tried} with the contract; the last: {reason}")


class Wrapped:
    """The callable that `wrap` returns. Safe to call from several threads; close it when done."""

    def __init__(
        self,
        generate: Callable[[str], Any],
        contract: Contract,
        config: WrapConfig,
        store: Path,
        durability: Durability = "process",
        on_failure: OnFailure = "return",
        attempts: int = 3,
    ) -> None:
        if not callable(generate):
            raise UserError(f"wrap: {generate!r} is not callable; it takes a prompt and returns text")
        if on_failure not in get_args(OnFailure):
            raise UserError(
                f"wrap: on_failure = {on_failure!r}; {nearest(str(on_failure), get_args(OnFailure))}"
            )
        if attempts < 1:
            raise UserError(f"wrap: attempts = {attempts}: at least 1")
        self._generate, self._contract, self._config = generate, contract, config
        self._on_failure = on_failure
        self._attempts = 1 if on_failure == "return" else attempts
        self._lock = threading.RLock()
        self._tools: dict[int, tuple[JudgePool, RunStore]] = {}  # by process
        self._run = _open(store, config)
        self._durability = durability
        self._canons = CanonStore(store / "canon", versions())
        self._examined: list[Canon] = []
        current = versions()
        self._cell = RunRow(
            run_id=f"{self._run.run_id}.0000",
            prompt_id=contract.id,
            mode="middleware",
            timestamp=utc_now(),
            model=config.model,
            temperature=config.temperature,
            seed=config.seed,
            oracle_version=current.oracle_version,
            normalization_version=current.normalization_version,
            contract_id=contract.id,
            distance_version=get_distance(config.distance).id,
        )
        with RunStore(store, durability) as records:
            records.append([self._cell], [])

    def __repr__(self) -> str:
        name = getattr(self._generate, "__name__", type(self._generate).__name__)
        return f"Wrapped({name}, contract={self._contract.id!r}, store={str(self._run.path)!r})"

    def __call__(self, prompt: str | None = None) -> str:
        """Generate, judge, repair, record; returns the code to use."""
        return self.sample(prompt).code

    def sample(self, prompt: str | None = None) -> Anchored:
        """The same with its record; the function is called again where `on_failure` says so."""
        if inspect.iscoroutinefunction(self._generate):
            raise UserError("wrap: the function is async; use `await wrapped.asample()`")
        for attempt in range(1, self._attempts + 1):
            answer = self._anchored(self._generate(prompt or self._contract.prompt), attempt)
            if answer.compliant:
                break
        return self._given_out(answer)

    async def asample(self, prompt: str | None = None) -> Anchored:
        """The same for an async function; judging and repairing do not block the event loop."""
        for attempt in range(1, self._attempts + 1):
            raw: Any | Awaitable[Any] = self._generate(prompt or self._contract.prompt)
            raw = await raw if inspect.isawaitable(raw) else raw
            answer = await asyncio.to_thread(self._anchored, raw, attempt)
            if answer.compliant:
                break
        return self._given_out(answer)

    def anchor(self, raw: str) -> Anchored:
        """Anchor a text that was generated elsewhere."""
        return self._given_out(self._anchored(raw))

    def _given_out(self, answer: Anchored) -> Anchored:
        if self._on_failure == "raise" and not answer.compliant:
            raise NotCompliantError(answer)
        return answer

    def _anchored(self, raw: str, attempt: int = 1) -> Anchored:
        if not isinstance(raw, str):
            raise UserError(f"wrap: the function returned {type(raw).__name__}, not str")
        with self._lock:
            pool, store = self._opened()
            canon = self._canon(pool, raw)
            generation = Generation(self._contract.id, self._config.model, self._config.temperature, 0, raw)
            sample = pool.sample(generation, self._contract, canon)
            if self._attempts > 1:
                sample = replace(sample, record={**sample.record, "attempt": attempt})
            [sample] = store.append([self._cell], [(self._cell.run_id, sample)], numbered=True)
        return Anchored(sample["normalized_post"], raw, sample.record, attempt)

    def metrics(self) -> RunMetrics:
        """Every metric over what is on record so far; also written into the store."""
        distance = get_distance(self._config.distance).id
        trusted = trusted_canons(self._canons, [self._contract.id])
        settings = measured_with(self._config, distance, "middleware", trusted)
        with hold(self._run.path):
            return summarise(self._run, self._config.tau, settings)

    def close(self) -> None:
        """Write the files of what is on record, say that the run is finished, and let go of it."""
        pool, store = self._tools.pop(os.getpid(), (None, None))
        if pool is not None and store is not None:
            pool.__exit__(None, None, None)
            with store:
                write_files(store)
        self._run.finish()

    def __enter__(self) -> Wrapped:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> tuple[JudgePool, RunStore]:
        """A sandbox and a database belong to the process that opened them: a forked child opens its own."""
        here = os.getpid()
        if here not in self._tools:
            pool = JudgePool(self._config, {self._contract.id: self._contract})
            self._tools[here] = pool, RunStore(self._run.path, self._durability)
        return self._tools[here]

    def _examine(self, pool: JudgePool, canon: Canon) -> None:
        """Look once at a canon that was on record before: it is compliant today, or trusted, or refused."""
        if canon in self._examined:
            return
        problems = faults(canon, self._contract, pool.verdict)
        if problems and not self._config.trust_canons:
            where = f"in {self._canons.path(canon.prompt_id)}"
            raise refuse(canon, problems, where, "replace it with `homeostat code canon set`")
        if problems:
            put_on_record(self._canons, canon, problems)
        self._examined.append(canon)

    def _canon(self, pool: JudgePool, raw: str) -> Canon | None:
        fixed = self._canons.get(self._contract.id)
        if fixed is not None:
            self._examine(pool, fixed)
            return fixed
        text = prepare(raw, self._contract).text
        if not pool.verdict(self._contract, text).compliant:
            return None
        first = new_canon(
            self._contract,
            text,
            origin="first_compliant",
            model=self._config.model,
            temperature=self._config.temperature,
        )
        return self._canons.fix(first)


def wrap(
    generate: Callable[[str], Any],
    *,
    contract: str | Contract,
    store: str | Path | None = None,
    contracts_dir: str | Path | None = None,
    durability: Durability = "process",
    on_failure: OnFailure = "return",
    attempts: int = 3,
    **settings: Any,
) -> Wrapped:
    """Anchor and repair what `generate(prompt)` returns, against one contract.

    `store` is the folder for canon and records (default `runs/wrap-<contract>`). `settings` are those of
    `skyt.runs.config.WrapConfig`: model, temperature, tau, evidence, … With `durability="full"` a sample is
    synced to the disk before it is returned.

    `on_failure` says what becomes of an answer that does not comply with the contract: `return` gives it back
    as it is; `retry` calls the function again, `attempts` times in all, and then gives back the last answer;
    `raise` does the same and then raises `NotCompliantError`. Every answer is on record.
    """
    if not isinstance(contract, Contract):
        contract = load_contract(contract, None if contracts_dir is None else Path(contracts_dir))
    config = parse_config(WrapConfig, {**settings, "contract": contract.id}, "wrap")
    folder = Path(store) if store is not None else Path("runs") / f"wrap-{contract.id}"
    return Wrapped(
        generate, contract, stamped(config, {contract.id: contract}), folder, durability, on_failure, attempts
    )


def _open(store: Path, config: WrapConfig) -> RunDir:
    """Open the store as a run directory; processes that start together wait for each other."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with open_run(store, command="skyt.wrap", config=config) as run:
                return run
        except UserError as error:
            if "another process is using" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
