"""The state half of the demo: the same question answered from a clean and from a damaged KV cache."""

from __future__ import annotations

from typing import Any

import torch

from cachemedicpp.config import AxesConfig, CorruptionConfig
from cachemedicpp.corruption import CorruptionFamily, sequence_keys
from cachemedicpp.state import Geometry
from homeostat.demo.config import DemoConfig
from homeostat.progress import Bar
from homeostat.rundir import RunDir

Answer = dict[str, Any]


class CacheDemonstration:
    """Answers questions step by step; each answer is a stage of the run, so an interrupted demo goes on."""

    def __init__(self, config: DemoConfig, model: Any, tokenizer: Any) -> None:
        self._config, self._model, self._tokenizer = config, model, tokenizer
        layers = range(Geometry.of(model).layers)
        axes = AxesConfig(head_mode="all", N_recent=4)
        family = CorruptionFamily.build(
            CorruptionConfig(axes=axes), model, tokenizer, tuple(layers), config.seed
        )
        kind = config.cache.corruption
        self._injections = {epsilon: family.at(kind, epsilon) for epsilon in (0.0, *config.cache.epsilons)}

    @property
    def severities(self) -> list[float]:
        return list(self._injections)

    @property
    def steps(self) -> int:
        return len(self.severities) * len(self._config.cache.questions)

    def run(self, run: RunDir, bar: Bar) -> list[Answer]:
        """All answers, clean first; each is logged and kept."""
        log, answers = run.log("demo"), list[Answer]()
        for number, question in enumerate(self._config.cache.questions):
            for epsilon in self.severities:
                step = len(answers)

                def answer(question: str = question, epsilon: float = epsilon, step: int = step) -> Answer:
                    log.rewind(step)
                    found = self._answer(question, epsilon)
                    log.append(step, **found)
                    return found

                answers.append(run.once(f"cache-{number}-{epsilon:g}", answer))
                bar.advance(note=f"epsilon {epsilon:g}")
        return answers

    @torch.no_grad()
    def _answer(self, question: str, epsilon: float) -> Answer:
        """Prefill clean, damage what is stored, then let the model go on from it greedily."""
        message = [{"role": "user", "content": question}]
        inputs = self._tokenizer.apply_chat_template(
            message, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self._model.device)
        ids = inputs["input_ids"]  # [1, T]
        cache = self._model(input_ids=ids[:, :-1], use_cache=True).past_key_values
        plan = self._injections[epsilon].corrupt_cache(cache, sequence_keys(ids))
        produced = self._model.generate(
            **inputs,
            past_key_values=cache,
            max_new_tokens=self._config.cache.max_new_tokens,
            do_sample=False,
        )[0, ids.shape[1] :]
        return {
            "question": question,
            "epsilon": epsilon,
            "corruption": plan.events[0].as_record(),
            "tokens": produced.tolist(),
            "text": self._tokenizer.decode(produced, skip_special_tokens=True).strip(),
        }


def agreement(clean: list[int], other: list[int]) -> float:
    """Share of the clean answer's tokens that the other answer has in the same place before they part."""
    same = 0
    for a, b in zip(clean, other, strict=False):
        if a != b:
            break
        same += 1
    return same / max(len(clean), 1)
