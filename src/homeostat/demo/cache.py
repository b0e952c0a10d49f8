"""The state half of the demo: one question answered from a clean, a damaged and a repaired KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.state import Geometry, KVState, stack
from cachemedicpp.corruption import CorruptionFamily, sequence_keys
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig
from cachemedicpp.repair.defences import Defence, Forks, Guarded, heuristic_defences
from homeostat.core.progress import Bar
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir
from homeostat.demo.config import Case, DemoConfig

CLEAN, DAMAGED = "clean", "corrupted"


class CacheDemonstration:
    """Answers questions case by case. Each case is a stage, so an interrupted demo can continue."""

    def __init__(self, config: DemoConfig, model: Any, tokenizer: Any, gaussian: Defence) -> None:
        self._config, self._model, self._tokenizer = config, model, tokenizer
        layers = tuple(range(Geometry.of(model).layers))
        axes = AxesConfig(head_mode="all", N_recent=4)
        self._family = CorruptionFamily.build(
            CorruptionConfig(axes=axes), model, tokenizer, layers, config.seed
        )
        every = heuristic_defences(layers, axes=axes)
        self._heuristics = [defence for defence in every if not defence.attaches]
        self._others = [gaussian, Guarded()]

    def run(self, run: RunDir, bar: Bar) -> list[Record]:
        """One record per case and state of its cache, the clean one first. Each is logged and stored."""
        log, rows = run.log("demo"), list[Record]()
        for number, case in enumerate(self._config.cache.cases):
            step = len(rows)

            def answers(case: Case = case, step: int = step) -> list[Record]:
                log.rewind(step)
                found = self._answers(case)
                for offset, row in enumerate(found):
                    log.append(step + offset, **row)
                return found

            rows += run.once(f"cache-{number}", answers)
            bar.advance(note=case.type)
        return rows

    @torch.no_grad()
    def _answers(self, case: Case) -> list[Record]:
        """Prefill once, damage a fork, repair forks of that, and let the model continue from each."""
        ids = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": case.question}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )["input_ids"].to(self._model.device)  # [1, T]
        clean = prefill(self._model, ids[:, :-1])
        cache = clean.cache()
        plan = self._family.at(case.type, case.epsilon).corrupt_cache(cache, sequence_keys(ids))
        damaged = KVState(cache)
        forks = Forks(tuple(ids[0, :-1].tolist()), clean, [plan], damaged)

        def mended(defence: Defence) -> KVState:
            cache = damaged.cache()
            defence.mend(self._model, cache, forks)
            return KVState(cache)

        [reference] = self._go_on(ids, [clean])
        tried = {defence.name: mended(defence) for defence in self._heuristics}
        costs = {name: self._perplexity(ids, state, reference) for name, state in tried.items()}
        best = min(costs, key=costs.__getitem__)
        states = {CLEAN: clean, DAMAGED: damaged, best: tried[best]}
        states |= {defence.name: mended(defence) for defence in self._others}
        produced = self._go_on(ids, list(states.values()))
        return [
            {
                "question": case.question,
                "type": case.type,
                "epsilon": case.epsilon,
                "cache": name,
                "heuristic": name == best,
                "perplexity": self._perplexity(ids, state, reference),
                "agreement": agreement(reference, tokens),
                "tokens": tokens,
                "text": self._tokenizer.decode(tokens, skip_special_tokens=True).strip(),
            }
            for (name, state), tokens in zip(states.items(), produced, strict=True)
        ]

    def _go_on(self, ids: Tensor, states: Sequence[KVState]) -> list[list[int]]:
        """What the model writes greedily from each cache, without the padding after its end."""
        prompts = ids.expand(len(states), -1)  # [B, T]
        out = self._model.generate(
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            past_key_values=stack(states).cache(),
            max_new_tokens=self._config.cache.max_new_tokens,
            do_sample=False,
            pad_token_id=self._tokenizer.pad_token_id,
        )[:, ids.shape[1] :]
        return [self._until_end(row) for row in out.tolist()]

    def _until_end(self, tokens: list[int]) -> list[int]:
        end = self._tokenizer.eos_token_id
        return tokens[: tokens.index(end) + 1] if end in tokens else tokens

    def _perplexity(self, ids: Tensor, state: KVState, answer: list[int]) -> float:
        """Perplexity of the clean answer given this cache."""
        wanted = torch.tensor([answer], device=ids.device)  # [1, n]
        read = torch.cat((ids[:, -1:], wanted[:, :-1]), 1)
        logits = self._model(input_ids=read, past_key_values=state.cache()).logits.float()
        return float(torch.nn.functional.cross_entropy(logits[0], wanted[0]).exp())


def agreement(clean: list[int], other: list[int]) -> float:
    """Share of the clean answer's tokens that the other answer repeats before its first difference."""
    same = 0
    for a, b in zip(clean, other, strict=False):
        if a != b:
            break
        same += 1
    return same / max(len(clean), 1)
