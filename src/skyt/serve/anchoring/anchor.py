"""An anchored request: generate, judge, measure against the canon, repair, record, and only then answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from homeostat.core.errors import UserError
from skyt.canon import Canon, CanonVersionError
from skyt.contracts.contract import Contract
from skyt.records import Sample
from skyt.runs.canons import put_on_record, refuse
from skyt.serve.anchoring.asking import Asked
from skyt.serve.anchoring.judge import Judge, Output
from skyt.serve.anchoring.matching import ALIAS, METADATA, Match
from skyt.serve.anchoring.recorder import Recorder
from skyt.serve.anchoring.settling import settle
from skyt.serve.config import Policy, ServeConfig
from skyt.serve.database.keys import ANYONE
from skyt.serve.database.store import AlreadyAnswered, CanonMoved, Store, Submission
from skyt.serve.protocol import answers
from skyt.serve.protocol.errors import ApiError, upstream_error
from skyt.serve.telemetry import Telemetry
from skyt.serve.upstream.endpoint import Upstream

_RACES = 50  # times a canon may change under a request before it gives up


@dataclass(frozen=True)
class _Accepted:
    """A choice that will be answered with, and its sample, if it has text to judge."""

    choice: dict[str, Any]
    record: Sample | None


@dataclass(frozen=True)
class _Attempt:
    """One answer of the upstream; `last` if no other will be asked for."""

    response: Mapping[str, Any]
    choices: list[dict[str, Any]]
    last: bool

    def texts(self, chat: bool) -> list[str | None]:
        return [answers.text_of(choice, chat) for choice in self.choices]


@dataclass(frozen=True)
class _Outcome:
    """What the attempts so far came to."""

    accepted: list[_Accepted] = field(default_factory=list)
    rejected: list[Sample] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    answer: dict[str, Any] | None = None


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

    async def answer(self, asked: Asked) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, body and headers."""
        if asked.idempotency is not None:
            known = await asyncio.to_thread(self._known, asked.idempotency)
            if known is not None:
                return _replayed(known)
        try:
            return await self._generate(asked)
        except AlreadyAnswered as found:  # the same key raced on another connection or host
            return _replayed(found.answer)

    def _known(self, idempotency: tuple[str, str, str]) -> dict[str, Any] | None:
        try:
            with self._store.reading() as connection:
                return self._store.answered(connection, *idempotency)
        except UserError as error:
            raise ApiError(409, str(error), code="idempotency_key_reused") from None

    async def _generate(self, asked: Asked) -> tuple[int, dict[str, Any], dict[str, str]]:
        so_far = _Outcome()
        attempts = asked.policy.retries + 1 if asked.policy.mode == "enforce" else 1
        for number in range(attempts):
            request = self._request(asked, asked.n - len(so_far.accepted), number)
            response = await self._upstream.complete(asked.path, asked.headers, request, asked.call)
            attempt = _Attempt(response, _checked(response["choices"], asked.chat), number + 1 == attempts)
            placed = await self._record(asked, attempt, so_far)
            so_far = self._outcome(asked, so_far, attempt, placed)
            if so_far.answer is not None:
                break
        answer = so_far.answer
        if answer is None:
            raise AssertionError("the last attempt has an answer")
        self._telemetry.anchored(asked.match.contract.id, asked.policy.mode, answer["body"].get("skyt", {}))
        return answer["status"], answer["body"], answer["headers"]

    def _request(self, asked: Asked, wanted: int, attempt: int) -> dict[str, Any]:
        """What the upstream is asked: the client's request, whole instead of streamed, without our words."""
        body = {k: v for k, v in asked.body.items() if k not in ("stream", "stream_options")}
        body["model"] = asked.model
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and METADATA in metadata:
            rest = {k: v for k, v in metadata.items() if k != METADATA}
            body = {**body, "metadata": rest} if rest else {k: v for k, v in body.items() if k != "metadata"}
        if "n" in body or wanted != 1:
            body["n"] = wanted
        if attempt and isinstance(body.get("seed"), int):
            body["seed"] += attempt  # the same seed would give the same output again
        return body

    async def _record(self, asked: Asked, attempt: _Attempt, so_far: _Outcome) -> list[Sample]:
        """Measure against the canon there is, record, and measure again if another was fixed meanwhile."""
        contract, policy = asked.match.contract, asked.policy
        texts = [text for text in attempt.texts(asked.chat) if text is not None]
        if not texts:
            return []
        outputs = [Output(text, asked.model, asked.temperature) for text in texts]
        canon = await self._canon(contract, policy)
        may_fix = asked.key is not ANYONE or self._config.canons_from == "anyone"
        for _ in range(_RACES):
            measured = await self._judge.measure(contract, outputs, canon, policy.evidence, may_fix=may_fix)
            spent = time.monotonic() - asked.began
            submission = Submission(
                prompt_id=contract.id,
                model=asked.model,
                temperature=asked.temperature,
                seed=self._config.measure.seed,
                measured=measured.samples,
                canon=measured.canon,
                fixes=measured.fixes,
                request_id=asked.request_id,
                upstream_ms=asked.call.upstream_s * 1e3,
                overhead_ms=(spent - asked.call.upstream_s) * 1e3,
                idempotency=asked.idempotency,
                answer=lambda placed: self._outcome(asked, so_far, attempt, placed).answer,
            )
            try:
                placed = await self._recorder.record(submission)
            except CanonMoved:
                canon = await self._canon(contract, policy, fresh=True)
                continue
            except UserError as error:
                raise ApiError(409, str(error), code="idempotency_key_reused") from None
            self._canons[contract.id] = measured.canon
            if measured.fixes and measured.canon is not None:
                self._examined.add(measured.canon.canon_signature)
                self.settle_later(asked.match, policy)
            return placed
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

    def _outcome(self, asked: Asked, so_far: _Outcome, attempt: _Attempt, placed: list[Sample]) -> _Outcome:
        """Where the request stands after an attempt; with its answer if no other attempt is to follow."""
        keep, drop = _sort(attempt.choices, attempt.texts(asked.chat), placed, asked.policy)
        outcome = _Outcome(
            accepted=[*so_far.accepted, *keep],
            rejected=[*so_far.rejected, *drop],
            usage=answers.add_usage(so_far.usage, attempt.response.get("usage")),
            attempts=so_far.attempts + 1,
        )
        if drop and not attempt.last:
            return outcome
        answer = self._refusal(asked, outcome) if drop else self._success(asked, outcome, attempt.response)
        return replace(outcome, answer=answer)

    def _success(self, asked: Asked, outcome: _Outcome, response: Mapping[str, Any]) -> dict[str, Any]:
        choices, samples = [], []
        for index, item in enumerate(outcome.accepted):
            choice, record = {**item.choice, "index": index}, item.record
            if record is not None:
                replaced = asked.policy.mode != "observe" and record["d_post"] == 0.0
                if replaced:
                    code = answers.code_text(record["normalized_post"], asked.chat, asked.policy.answer)
                    choice = answers.with_text(choice, code, asked.chat)
                samples.append(answers.sample_field(index, record, replaced))
            choices.append(choice)
        records = [item.record for item in outcome.accepted if item.record is not None]
        told = self._field(asked, outcome, records, samples)
        body = {**response, "choices": choices, "skyt": told}
        if outcome.usage:
            body["usage"] = outcome.usage
        if isinstance(asked.body.get("model"), str) and asked.body["model"].startswith(ALIAS):
            body["model"] = asked.body["model"]
        return {"status": 200, "body": body, "headers": answers.skyt_headers(told)}

    def _refusal(self, asked: Asked, outcome: _Outcome) -> dict[str, Any]:
        verdict = outcome.rejected[-1]["oracle_post"]
        why = "; ".join(verdict["failures"]) or "no reason on record"
        samples = [answers.sample_field(at, record, False) for at, record in enumerate(outcome.rejected)]
        told = self._field(asked, outcome, outcome.rejected, samples)
        error = ApiError(
            422,
            f"no output complied with contract {asked.match.contract.id!r} in {outcome.attempts} attempts; "
            f"the last one: {why}",
            type="contract_violation",
            code="not_compliant",
            extra={"skyt": told},
        )
        return {"status": error.status, "body": error.body, "headers": answers.skyt_headers(told)}

    def _field(
        self, asked: Asked, outcome: _Outcome, records: list[Sample], samples: list[dict[str, Any]]
    ) -> dict[str, Any]:
        canon = next((record["canon_signature"] for record in records), None)
        return answers.skyt_field(
            contract_id=asked.match.contract.id,
            matched_by=asked.match.by,
            policy=asked.policy.mode,
            request_id=asked.request_id,
            attempts=outcome.attempts,
            canon_signature=canon,
            versions=self._store.versions,
            samples=samples,
        )


def _sort(
    choices: list[dict[str, Any]], texts: list[str | None], placed: list[Sample], policy: Policy
) -> tuple[list[_Accepted], list[Sample]]:
    """Choices to answer with, and, under `enforce`, the samples that were not compliant."""
    records = iter(placed)
    keep, drop = [], []
    for choice, text in zip(choices, texts, strict=True):
        record = None if text is None else next(records)
        if policy.mode == "enforce" and record is not None and not record["oracle_post"]["compliant"]:
            drop.append(record)
        else:
            keep.append(_Accepted(choice, record))
    return keep, drop


def _replayed(answer: Mapping[str, Any]) -> tuple[int, dict[str, Any], dict[str, str]]:
    return answer["status"], answer["body"], {**answer["headers"], "x-skyt-replayed": "true"}


def _checked(choices: list[Any], chat: bool) -> list[dict[str, Any]]:
    for choice in choices:
        part = choice.get("message" if chat else "text") if isinstance(choice, dict) else None
        if not isinstance(part, dict if chat else str):
            raise upstream_error("the upstream's answer has a choice without a message")
    if not choices:
        raise upstream_error("the upstream's answer has no choice")
    return choices
