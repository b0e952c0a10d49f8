"""One engine of a campaign: reads a job, writes a line for every answer. Runs in the engine's environment.

    python -m cachemedicpp.engines.campaign.driver JOB.json OUT.jsonl

Each group of prompts shares a prefix. The prefix is computed, blocks of it are damaged while nothing runs,
and then the prompts come in together and find it in the prefix cache. That they did is checked: an answer
that was computed from nothing would prove nothing.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from cachemedicpp.engines.environment import llm

BLOCK = 32
POOL = 160  # blocks of the engine: small, so that remembering all of them is cheap


class Driver:
    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.engine = llm(
            job["model"],
            job["guard"],
            faults=True,
            dtype=job["dtype"],
            num_gpu_blocks_override=POOL,
            long_prefill_token_threshold=job["chunk"],
        )

    def rpc(self, name: str, *given: Any) -> Any:
        return self.engine.collective_rpc(name, args=given)[0]

    def generate(self, prompts: list[str], tokens: int) -> list[Any]:
        from vllm import SamplingParams

        how = SamplingParams(temperature=0, max_tokens=tokens, logprobs=2, ignore_eos=True)
        return list(self.engine.generate(prompts, how, use_tqdm=False))

    def group(
        self, number: int, group: dict[str, Any], fault: dict[str, Any] | None, turn: int
    ) -> list[dict[str, Any]]:
        """The answers of one group, after one fault."""
        before = self.rpc("fault_counts")
        if not self.engine.reset_prefix_cache():
            raise RuntimeError("the engine did not forget its prefix cache")
        if fault is not None and fault["kind"] == "stale":
            self.rpc("fault_remember", list(range(1, POOL)))
        self.generate([group["prefix"]], 1)
        table = max(self.rpc("fault_blocks").values(), key=len)
        numbers, hit = 0, []
        if fault is not None:
            draw = f"{number}/{turn}"
            pick = random.Random(f"{self.job['seed']}/{draw}")
            whole = table[: group["blocks"]]
            hit = sorted(pick.sample(whole, min(self.job["blocks"], len(whole))))
            others = [
                pick.choice([b for b in whole if b not in hit] or [b for b in whole if b != h]) for h in hit
            ]
            numbers = self.rpc("fault_inject", {**fault, "seed": self.job["seed"]}, hit, draw, others)
        start = time.perf_counter()
        answers = self.generate(group["prompts"], self.job["max_tokens"])
        took = time.perf_counter() - start
        after = self.rpc("fault_counts")
        found = min(answer.num_cached_tokens for answer in answers) // BLOCK
        group.setdefault("blocks", found)  # what all of them share; the first round is a clean one
        if found < max(group["blocks"], 2):
            raise RuntimeError("a prompt did not find its prefix in the cache: nothing was tried")
        shared = {
            "fault": fault,
            "group": number,
            "turn": turn,
            "blocks": hit,
            "numbers": numbers,
            "seconds": took,
            "counts": {name: after[name] - before[name] for name in after},
        }
        return [
            {
                **shared,
                "prompt": i,
                "cached": answer.num_cached_tokens,
                "tokens": list(answer.outputs[0].token_ids),
                "margins": [_margin(step) for step in answer.outputs[0].logprobs],
            }
            for i, answer in enumerate(answers)
        ]


def _margin(step: dict[int, Any]) -> float:
    """How far the chosen token was ahead of the next one, in log probability."""
    best = sorted((found.logprob for found in step.values()), reverse=True)
    gap = best[0] - best[1] if len(best) > 1 else 0.0
    return round(gap, 5) if gap == gap and gap < float("inf") else 0.0


def main(job_file: str, out_file: str) -> None:
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    driver = Driver(job)
    with Path(out_file).open("w", encoding="utf-8") as out:
        for turn in range(job["clean_rounds"]):
            for number, group in enumerate(job["groups"]):
                for row in driver.group(number, group, None, turn):
                    out.write(json.dumps(row) + "\n")
        for turn, fault in enumerate(job["faults"]):
            for number, group in enumerate(job["groups"]):
                for row in driver.group(number, group, fault, turn):
                    out.write(json.dumps(row) + "\n")
        out.write(json.dumps({"end": True}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
