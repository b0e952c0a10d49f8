"""What the attempts at one request came to: which choices to answer with, and the answer in its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skyt.canon import Versions
from skyt.records import Sample
from skyt.serve.anchoring.asking import Asked
from skyt.serve.anchoring.matching import ALIAS
from skyt.serve.protocol import answers
from skyt.serve.protocol.errors import ApiError

Answer = dict[str, Any]  # status, body and headers


class Accepted(NamedTuple):
    """A choice that will be answered with, and its sample, if it has text to judge."""

    choice: dict[str, Any]
    sample: Sample | None


@dataclass(frozen=True)
class Outcome:
    """Where a request stands after some attempts."""

    accepted: list[Accepted] = field(default_factory=list)
    rejected: list[Sample] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    complete: bool = False  # no choice of the last attempt was rejected

    def after(self, asked: Asked, response: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
        """With one attempt more; what does not comply is rejected if the policy wants something better."""
        failure, last = asked.policy.failure, self.attempts + 1 == asked.policy.tries
        rejects = failure == "raise" or (failure == "retry" and not last)
        judged = iter(samples)
        accepted, rejected = list[Accepted](), list[Sample]()
        for choice in response["choices"]:
            sample = None if answers.text_of(choice, asked.chat) is None else next(judged)
            if rejects and sample is not None and not _complies(sample):
                rejected.append(sample)
            else:
                accepted.append(Accepted(choice, sample))
        return Outcome(
            accepted=[*self.accepted, *accepted],
            rejected=[*self.rejected, *rejected],
            usage=answers.add_usage(self.usage, response.get("usage")),
            attempts=self.attempts + 1,
            complete=not rejected,
        )

    def answer(self, asked: Asked, response: Mapping[str, Any], versions: Versions) -> Answer | None:
        """The answer, or None if the upstream is to be asked again."""
        if self.complete:
            return self._success(asked, response, versions)
        return self._refusal(asked, versions) if self.attempts == asked.policy.tries else None

    def _success(self, asked: Asked, response: Mapping[str, Any], versions: Versions) -> Answer:
        choices, fields = [], []
        for index, (choice, sample) in enumerate(self.accepted):
            choice = {**choice, "index": index}
            if sample is not None:
                replaced = asked.policy.mode != "observe" and sample["d_post"] == 0.0
                if replaced:
                    code = answers.code_text(sample["normalized_post"], asked.chat, asked.policy.answer)
                    choice = answers.with_text(choice, code, asked.chat)
                fields.append(answers.sample_field(index, sample, replaced))
            choices.append(choice)
        samples = [sample for _, sample in self.accepted if sample is not None]
        if not samples:
            done = "nothing_to_judge"
        elif not all(map(_complies, samples)):
            done = "returned"
        else:
            done = "complied" if self.attempts == 1 else "retried"
        told = self._told(asked, versions, done, samples, fields)
        body = {**response, "choices": choices, "skyt": told}
        if self.usage:
            body["usage"] = self.usage
        if isinstance(asked.body.get("model"), str) and asked.body["model"].startswith(ALIAS):
            body["model"] = asked.body["model"]
        return {"status": 200, "body": body, "headers": answers.skyt_headers(told)}

    def _refusal(self, asked: Asked, versions: Versions) -> Answer:
        why = "; ".join(self.rejected[-1]["oracle_post"]["failures"]) or "no reason on record"
        fields = [answers.sample_field(at, sample, False) for at, sample in enumerate(self.rejected)]
        told = self._told(asked, versions, "refused", self.rejected, fields)
        error = ApiError(
            422,
            f"no output complied with contract {asked.match.contract.id!r} in {self.attempts} attempts; "
            f"the last one: {why}",
            type="contract_violation",
            code="not_compliant",
            extra={"skyt": told},
        )
        return {"status": error.status, "body": error.body, "headers": answers.skyt_headers(told)}

    def _told(
        self,
        asked: Asked,
        versions: Versions,
        outcome: str,
        samples: Sequence[Sample],
        fields: list[dict[str, Any]],
    ) -> dict[str, Any]:
        """The field `skyt` of the answer."""
        contract = asked.match.contract.id
        canon = samples[0]["canon_signature"] if samples else None
        return {
            "contract": contract,
            "matched_by": asked.match.by,
            "policy": asked.policy.mode,
            "request_id": asked.request_id,
            "outcome": outcome,
            "attempts": self.attempts,
            "usage": answers.reported_usage(self.usage),
            "canon_id": None if canon is None else answers.canon_id(contract, canon),
            "canon_signature": canon,
            "normalization_version": versions.normalization_version,
            "oracle_version": versions.oracle_version,
            "samples": fields,
        }


def _complies(sample: Sample) -> bool:
    return bool(sample["oracle_post"]["compliant"])
