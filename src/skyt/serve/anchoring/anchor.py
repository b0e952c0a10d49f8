"""An anchored request: generate, judge, measure against the canon, repair, record, and only then answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from homeostat.core.errors import UserError
from skyt.canon import Canon, CanonVersionError
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import Sample
from skyt.runs.canons import put_on_record, refuse
from skyt.serve.anchoring.asking import Asked
from skyt.serve.anchoring.judge import Judge
from skyt.serve.anchoring.matching import METADATA, Match
from skyt.serve.anchoring.outcome import Answer, Outcome
from skyt.serve.anchoring.recorder import Recorder
from skyt.serve.anchoring.settling import settle
from skyt.serve.config import Policy, ServeConfig
from skyt.serve.database.keys import ANYONE
from skyt.serve.database.store import AlreadyAnswered, CanonMoved, Store, Submission
from skyt.serve.protocol import answers
from skyt.serve.protocol.errors import ApiError, upstream_error
from skyt.serve.telemetry import Telemetry
from skyt.serve.tracing import span
from skyt.serve.upstream.endpoint import Upstream

_RACES = 50  # times a canon may change under a request before it gives up


class Anchor:
    """Answers requests that fall under a contract."""

    def __init__(
        self,
        config: ServeConfig,
        store: Store,
        judge: Judge,
        recorder: Recorder,
        upstream: Upstream,
        telemetry: Telemetry,
    ) -> None:
        self._config, self._store, self._judge, self._recorder = config, store, judge, recorder
        self._upstream, self._telemetry = upstream, telemetry
        self._canons: dict[str, Canon | None] = {}
        self._examined: set[str] = set()  # signatures
        self._settling: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        for task in self._settling:
            task.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)

    def settle_later(self, match: Match, policy: Policy) -> None:
        """Measure samples from before the canon, in the background."""
        task = asyncio.create_task(settle(self._store, self._judge, match.contract, policy.evidence))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def answer(self, asked: Asked) -> Answer:
        """Ask the upstream until the policy is content, and answer; or repeat the answer on record."""
        try:
            if asked.idempotency is not None:
                await asyncio.to_thread(self._check_new, asked.idempotency)
            outcome, answer = Outcome(), None
            while answer is None:
                request = _request(asked, asked.n - len(outcome.accepted), outcome.attempts)
                response = await self._upstream.complete(asked.path, asked.headers, request, asked.call)
                outcome, answer = await self._record(asked, outcome, _checked(response, asked.chat))
        except AlreadyAnswered as earlier:  # perhaps just now, on another connection or host
            answer = earlier.answer
            return {**answer, "headers": {**answer["headers"], "x-skyt-replayed": "true"}}
        except UserError as error:
            raise ApiError(409, str(error), code="idempotency_key_reused") from None
        self._telemetry.anchored(answer["body"]["skyt"])
        return answer

    def _check_new(self, idempotency: tuple[str, str, str]) -> None:
        with self._store.reading() as connection:
            answer = self._store.answered(connection, *idempotency)
        if answer is not None:
            raise AlreadyAnswered(answer)

    async def _record(
        self, asked: Asked, so_far: Outcome, response: Mapping[str, Any]
    ) -> tuple[Outcome, Answer | None]:
        """Measure against the canon there is, record, and measure again if another was fixed meanwhile."""
        contract, policy = asked.match.contract, asked.policy
        texts = [
            text
            for choice in response["choices"]
            if (text := answers.text_of(choice, asked.chat)) is not None
        ]
        outputs = [Generation(contract.id, asked.model, asked.temperature, 0, text) for text in texts]
        may_fix = asked.key is not ANYONE or self._config.canons_from == "anyone"
        canon = await self._canon(contract, policy) if outputs else None
        for _ in range(_RACES):
            with span("judge"):
                measured = await self._judge.measure(
                    contract, outputs, canon, policy.evidence, may_fix=may_fix
                )
            samples = _numbered(measured.samples, so_far.attempts + 1, response)
            outcome = so_far.after(asked, response, samples)
            answer = outcome.answer(asked, response, self._store.versions)
            if not outputs:
                return outcome, answer
            spent = time.monotonic() - asked.began
            submission = Submission(
                prompt_id=contract.id,
                model=asked.model,
                temperature=asked.temperature,
                seed=self._config.measure.seed,
                measured=samples,
                canon=measured.canon,
                fixes=measured.fixes,
                request_id=asked.request_id,
                upstream_ms=asked.call.upstream_s * 1e3,
                overhead_ms=(spent - asked.call.upstream_s) * 1e3,
                idempotency=asked.idempotency,
                answer=None if answer is None else partial(answers.placed, answer),
            )
            try:
                with span("record"):
                    placed = await self._recorder.record(submission)
            except CanonMoved:
                canon = await self._canon(contract, policy, fresh=True)
                continue
            self._canons[contract.id] = measured.canon
            if measured.fixes and measured.canon is not None:
                self._examined.add(measured.canon.canon_signature)
                self.settle_later(asked.match, policy)
            if answer is None:
                return so_far.after(asked, response, placed), None
            return outcome, answers.placed(answer, placed)
        raise ApiError(503, f"the canon of {contract.id!r} keeps changing: is it being re-anchored?")

    async def _canon(self, contract: Contract, policy: Policy, fresh: bool = False) -> Canon | None:
        if fresh or self._canons.get(contract.id) is None:
            try:
                self._canons[contract.id] = await asyncio.to_thread(self._store.get, contract.id)
            except UserError as error:
                code = "canon_version" if isinstance(error, CanonVersionError) else "canon_damaged"
                raise ApiError(409, str(error), type="canon_error", code=code) from None
        canon = self._canons[contract.id]
        if canon is not None and canon.canon_signature not in self._examined:
            try:
                faults = await self._judge.faults(contract, canon, policy.evidence)
                await asyncio.to_thread(self.accept, canon, faults)
            except UserError as error:
                raise ApiError(409, str(error), type="canon_error", code="canon_refused") from None
        return canon

    def accept(self, canon: Canon, faults: list[str]) -> None:
        """Use a canon that was in the database before; one with faults is refused, unless trusted."""
        if faults and not self._config.measure.trust_canons:
            raise refuse(canon, faults, "in the database", f"start once with --re-anchor {canon.prompt_id}")
        if faults:
            put_on_record(self._store, canon, faults)
        self._examined.add(canon.canon_signature)


def _request(asked: Asked, wanted: int, attempts: int) -> dict[str, Any]:
    """What the upstream is asked: the client's request, whole instead of streamed, without our words."""
    body = {k: v for k, v in asked.body.items() if k not in ("stream", "stream_options")}
    body["model"] = asked.model
    if isinstance(metadata := body.get("metadata"), dict) and METADATA in metadata:
        body["metadata"] = {k: v for k, v in metadata.items() if k != METADATA}
        if not body["metadata"]:
            del body["metadata"]
    if "n" in body or wanted != 1:
        body["n"] = wanted
    if attempts and isinstance(body.get("seed"), int):
        body["seed"] += attempts  # the same seed would give the same output again
    return body


def _checked(response: dict[str, Any], chat: bool) -> dict[str, Any]:
    for choice in response["choices"]:
        part = choice.get("message" if chat else "text") if isinstance(choice, dict) else None
        if not isinstance(part, dict if chat else str):
            raise upstream_error("the upstream's answer has a choice without a message")
    if not response["choices"]:
        raise upstream_error("the upstream's answer has no choice")
    return response


def _numbered(samples: list[Sample], attempt: int, response: Mapping[str, Any]) -> list[Sample]:
    """The samples with their position until they have a place, and what the attempt cost at the first one."""
    usage = answers.reported_usage(response.get("usage"))
    numbered = []
    for at, sample in enumerate(samples):
        more = {"usage": usage} if usage and at == 0 else {}
        record = {**sample.record, "sample_id": f"{at:06d}", "attempt": attempt, **more}
        numbered.append(Sample(record, sample.timestamp))
    return numbered
