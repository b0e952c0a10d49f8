"""Code written from a damaged cache: one prefill per prompt, one fork per sample and arm."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.state import KVState, stack
from cachemedicpp.corruption import CorruptionFamily, Plan
from cachemedicpp.repair.defences import Defence, Forks
from homeostat.joint.config import Arm, JointConfig
from skyt.generators.local import GumbelSampling
from skyt.generators.watch import Watch, ends_of

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
        self._clean = prefill(model, self._ids[:, :-1])

    def write(
        self,
        arm: Arm,
        defence: Defence,
        known: Container[int],
        ended: Callable[[int, str], None],
        far: Callable[[float], None] | None = None,
    ) -> None:
        """Write the samples of an arm that are not `known`.

        `ended` gets each one when its last token is there; `far` is told how many samples' worth of work is
        under way.
        """
        todo = [sample for sample in range(self._config.samples) if sample not in known]
        for at in range(0, len(todo), self._config.batch_size):
            self._batch(arm, defence, todo[at : at + self._config.batch_size], ended, far)

    @torch.no_grad()
    def _batch(
        self,
        arm: Arm,
        defence: Defence,
        samples: Sequence[int],
        ended: Callable[[int, str], None],
        far: Callable[[float], None] | None,
    ) -> None:
        states, plans = [], list[Plan | None]()
        for sample in samples:
            cache = self._clean.cache()
            plan = None
            if arm.epsilon > 0:
                injection = self._family.at(self._config.type, arm.epsilon, draw=sample)
                plan = injection.corrupt_cache(cache, [self._key])
            states.append(KVState(cache))
            plans.append(plan)
        damaged = stack(states)
        cache = damaged.cache()
        stored = tuple(self._ids[0, :-1].tolist())
        defence.mend(self._model, cache, Forks(stored, self._clean, plans, damaged))
        ids = self._ids.expand(len(samples), -1)  # [B, T]
        noise = GumbelSampling([self._seed(s) for s in samples], self._config.temperature, top_p=1.0)
        length = ids.shape[1]

        def decoded(row: int, tokens: Tensor) -> None:
            ended(samples[row], self._tokenizer.batch_decode(tokens[None], skip_special_tokens=True)[0])

        watch = Watch(
            length,
            self._config.max_new_tokens,
            ends_of(self._model),
            decoded,
            far,
            also=FenceClosed(self._tokenizer, length) if self._config.stop_after_code else None,
        )
        with defence.attached(self._model):
            out = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                do_sample=False,
                max_new_tokens=self._config.max_new_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                logits_processor=LogitsProcessorList([noise]),
                stopping_criteria=StoppingCriteriaList([watch]),
            )
        watch.finish(out[:, length:])
        if far is not None:
            far(0.0)

    def _seed(self, sample: int) -> int:
        digest = hashlib.sha256(f"{self._config.seed}:{self._key}:{sample}".encode()).digest()
        return int.from_bytes(digest[:7], "big")
