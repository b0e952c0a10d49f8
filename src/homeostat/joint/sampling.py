"""Code written from a damaged cache: one prefill per prompt, one fork per sample and arm."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from cachemedicpp.cache.state import KVState, stack
from cachemedicpp.corruption import CorruptionFamily, Plan
from cachemedicpp.eval.defences import Defence, Forks
from homeostat.joint.config import Arm, JointConfig
from skyt.generators.local import GumbelSampling

_CLOSED = re.compile(r"^```[^\n]*\n.*^```$", re.MULTILINE | re.DOTALL)


class FenceClosed(StoppingCriteria):
    """Ends a sample once it holds a whole fence of code: what a model adds is prose and usage examples."""

    def __init__(self, tokenizer: Any, start: int) -> None:
        self._tokenizer, self._start = tokenizer, start

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        texts = self._tokenizer.batch_decode(input_ids[:, self._start :])
        closed = [_CLOSED.search(text) is not None for text in texts]
        return torch.tensor(closed, device=input_ids.device)  # [B]


class Writer:
    """Samples programs for one prompt. Sample `i` has the same damage and random stream in every arm."""

    def __init__(
        self, config: JointConfig, model: Any, tokenizer: Any, family: CorruptionFamily, prompt: str
    ) -> None:
        self._config, self._model, self._tokenizer, self._family = config, model, tokenizer, family
        message = [{"role": "user", "content": prompt}]
        self._ids = tokenizer.apply_chat_template(
            message, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )["input_ids"].to(model.device)  # [1, T]
        self._key = hashlib.sha256(prompt.encode("utf-8")).hexdigest()[:16]
        with torch.no_grad():
            cache = model(input_ids=self._ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values
        self._clean = KVState(cache)

    def write(self, arm: Arm, defence: Defence) -> list[str]:
        """All samples of an arm, as texts."""
        texts: list[str] = []
        while len(texts) < self._config.samples:
            last = min(len(texts) + self._config.batch_size, self._config.samples)
            texts += self._batch(arm, defence, range(len(texts), last))
        return texts

    @torch.no_grad()
    def _batch(self, arm: Arm, defence: Defence, samples: range) -> list[str]:
        states, plans = [], list[Plan | None]()
        for sample in samples:
            cache = self._clean.cache()
            plan = None
            if arm.epsilon > 0:
                injection = self._family.at(self._config.type, arm.epsilon, draw=sample)
                plan = injection.corrupt_cache(cache, [self._key])
            states.append(KVState(cache))
            plans.append(plan)
        cache = stack(states).cache()
        stored = tuple(self._ids[0, :-1].tolist())
        defence.mend(self._model, cache, Forks(stored, self._clean, plans))
        ids = self._ids.expand(len(samples), -1)  # [B, T]
        noise = GumbelSampling([self._seed(s) for s in samples], self._config.temperature, top_p=1.0)
        with defence.attached(self._model):
            out = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                do_sample=False,
                max_new_tokens=self._config.max_new_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                logits_processor=LogitsProcessorList([noise]),
                stopping_criteria=self._stopping(ids.shape[1]),
            )
        texts: list[str] = self._tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
        return texts

    def _stopping(self, start: int) -> StoppingCriteriaList:
        wanted = self._config.stop_after_code
        return StoppingCriteriaList([FenceClosed(self._tokenizer, start)] if wanted else [])

    def _seed(self, sample: int) -> int:
        digest = hashlib.sha256(f"{self._config.seed}:{self._key}:{sample}".encode()).digest()
        return int.from_bytes(digest[:7], "big")
