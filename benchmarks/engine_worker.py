"""Helper of the engine benchmarks: an engine that takes orders line by line, in its own environment.

`{"do": NAME, …}` in, one line of JSON out; `Worker` is the other end.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from typing import Any


class Worker:
    """An engine in a process of its own."""

    def __init__(self, guard: dict[str, Any] | None, dtype: str = "float32", **engine: Any) -> None:
        from cachemedicpp.engines.campaign.run import model_folder
        from cachemedicpp.engines.environment import engine_python, settings

        self._process = subprocess.Popen(
            [str(engine_python()), __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **settings()},
        )
        model = model_folder("smollm2-135m")
        self.ask("start", model=model, guard=guard, engine={"dtype": dtype, **engine})

    def ask(self, do: str, **about: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"do": do, **about}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise RuntimeError("the engine ended")

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class Engine:
    """The engine's end."""

    def start(self, model: str, guard: dict[str, Any] | None, engine: dict[str, Any]) -> None:
        from cachemedicpp.engines.environment import llm

        self.llm = llm(model, guard, faults=True, **engine)
        self._connector: list[Any] = []  # the worker's and the scheduler's, kept while they are taken out

    def rpc(self, name: str, given: list[Any]) -> Any:
        return self.llm.collective_rpc(name, args=tuple(given))[0]

    def switch(self, to: str) -> None:
        """`on`: the guard works; `off`: it does nothing; `none`: vLLM has no connector at all. What was
        written while it was not on has no fingerprints."""
        from vllm.distributed.kv_transfer import kv_transfer_state
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

        scheduler = self.llm.llm_engine.engine_core.engine_core.scheduler
        if not self._connector:
            self._connector = [kv_transfer_state.get_kv_transfer_group(), scheduler.connector]
        guard = self._connector[0]
        for name in ("bind_connector_metadata", "start_load_kv", "wait_for_save"):
            guard.__dict__.pop(name, None)
        guard.watch.ledger.forget(range(guard.watch.cache.blocks))
        if to == "off":
            guard.bind_connector_metadata = partial(KVConnectorBase_V1.bind_connector_metadata, guard)
            guard.start_load_kv = guard.wait_for_save = lambda *_, **__: None
        pair = [None, None] if to == "none" else self._connector
        kv_transfer_state._KV_CONNECTOR_AGENT, scheduler.connector = pair

    def generate(self, prompts: list[list[int]], tokens: int, fresh: bool) -> dict[str, Any]:
        """Answers to prompts given as tokens; `fresh`: nothing is in the prefix cache."""
        from vllm import SamplingParams, TokensPrompt

        if fresh and not self.llm.reset_prefix_cache():
            raise RuntimeError("the prefix cache was not forgotten")
        how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        wall, cpu = time.perf_counter(), time.process_time()
        done = self.llm.generate(asked, how, use_tqdm=False)
        return {
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "cached": [d.num_cached_tokens or 0 for d in done],
            "tokens": [list(d.outputs[0].token_ids) for d in done],
        }

    def decode(
        self, prompt: list[int], tokens: int, fault: dict[str, Any] | None, at: int, seed: int
    ) -> dict[str, Any]:
        """One answer, token by token; after `at` tokens a block of it is damaged."""
        from vllm import SamplingParams, TokensPrompt

        core = self.llm.llm_engine
        self.llm.reset_prefix_cache()
        how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        name = f"r{seed}-{time.monotonic_ns()}"
        core.add_request(name, TokensPrompt(prompt_token_ids=prompt), how)
        start = self.rpc("fault_counts", []).get("bad", 0)
        made: list[int] = []
        numbers, found, steps = 0, None, 0
        while core.has_unfinished_requests():
            if fault is not None and not numbers and len(made) == at:
                blocks = next(v for k, v in self.rpc("fault_blocks", []).items() if k.startswith(name))
                whole = blocks[: (len(prompt) + at) // 32]
                hit = random.Random(seed).choice(whole)
                numbers = self.rpc("fault_inject", [fault, [hit], f"decode{seed}", []])
                steps = 0
            for output in core.step():
                made = list(output.outputs[0].token_ids)
            steps += 1
            if numbers and found is None and self.rpc("fault_counts", []).get("bad", 0) > start:
                found = {"steps": steps, "tokens": len(made)}
        return {"tokens": made, "numbers": numbers, "found": found}


if __name__ == "__main__":
    engine = Engine()
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(engine, order.pop("do"))(**order)
        print("ANSWER " + json.dumps(answer), flush=True)
