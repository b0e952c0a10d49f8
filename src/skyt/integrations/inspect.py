"""A scorer for Inspect (`pip install inspect-ai`): is the answer the canon, and does it pass its contract?

    from skyt.integrations.inspect import anchored

    Task(dataset=[Sample(contract_prompt, metadata={"contract": "gcd"})], scorer=anchored(), epochs=10)

With several epochs, `distinct_programs` counts how many programs the same prompt gave.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState

from skyt.integrations import anchor, needed, scores

_EACH = {
    name: [mean(), stderr()]
    for name in ("compliant", "equals_canon", "equals_canon_after_repair", "distance")
}


@metric(scores="unreduced")
def distinct_programs() -> Metric:
    """How many normalised programs a prompt gave over all epochs, on average over the prompts."""

    def count(found: list[SampleScore]) -> float:
        programs: dict[object, set[str]] = defaultdict(set)
        for one in found:
            programs[one.sample_id].add((one.score.metadata or {})["program"])
        return sum(map(len, programs.values())) / max(1, len(programs))

    return count


@scorer(metrics=[_EACH, distinct_programs()])
def anchored(contract: str = "", store: str | None = None, evidence: str = "rewritten") -> Scorer:
    """Judge answers by a contract, or by each sample's `metadata["contract"]`, and repair them."""

    async def score(state: TaskState, target: Target) -> Score:
        name = needed(contract or state.metadata.get("contract"), "anchored(…) or the sample's metadata")
        wrapped = await asyncio.to_thread(anchor, name, store, evidence)
        found = await asyncio.to_thread(wrapped.anchor, state.output.completion)
        return Score(
            value=dict(scores(found)),
            answer=found.code,
            explanation=found.record["reason"],
            metadata={"program": found.record["signature_pre"], "evidence": found.record["evidence"]},
        )

    return score
