"""Validation: what an operator is worth on text and prompts that training does not see, clean and damaged.

    loss = KL(text, damaged) + KL(text, clean) + KL(retrieval, damaged) + KL(retrieval, clean)

Each KL is that to the clean model without an operator: per token of text, and over the choices of a retrieval
prompt. Perplexity forgives an operator that spoils rare tokens, and retrieval does not. Every operator gets
the same damage: on text drawn as training draws it, and on prompts every type in turn, since what an operator
spoils under one type is small beside what it mends under another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.shared import shared_layers
from cachemedicpp.cache.state import KVState, stack
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.operators import Trained
from cachemedicpp.tasks.base import Example
from cachemedicpp.tasks.choice import ChoiceTask
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.multikey import MultikeyTask
from cachemedicpp.train.passes import Teacher, study, teach
from homeostat.core.progress import track
from homeostat.core.records import Record

_APART = 7919  # added to the run's seed: prompts that no evaluation asks
_DRAW = 10**6  # the number of the first draw of damage; training's are the numbers of its steps
_BATCH = 8


@dataclass(frozen=True)
class Prompt:
    """One retrieval prompt: its state, undamaged first and then damaged, as one batch."""

    example: Example
    state: KVState
    known: Tensor  # [choices]: their log-probabilities among themselves, from the clean state


@dataclass(frozen=True)
class Validation:
    """Held-out text and prompts of one run. `family` draws the damage."""

    model: Any
    family: CorruptionFamily
    teachers: Sequence[Teacher]
    task: ChoiceTask
    prompts: Sequence[Prompt]

    @classmethod
    def build(
        cls, config: MedicConfig, model: Any, tokenizer: Any, family: CorruptionFamily, ids: Tensor
    ) -> Validation:
        """`ids` `[N, T]` are windows of text that is not trained on."""
        train = config.train
        length = train.prefix_len + train.validation_len
        with torch.no_grad():
            first = min(family.protected)
            teachers = [
                teach(model, part[:, :length], train.prefix_len, first) for part in torch.split(ids, _BATCH)
            ]
            task = _prompts(config, model, tokenizer)
            prompts = [
                _damaged(model, family, task, example, number) for number, example in enumerate(task.examples)
            ]
        return cls(model, family, teachers, task, prompts)

    def measure(self, operator: Repair | None) -> Record:
        """The parts of the loss, and their sum as `loss`."""
        with torch.no_grad():
            found: Record = {
                "text_damaged": self._text(operator, damaged=True),
                "text_clean": 0.0 if operator is None else self._text(operator, damaged=False),
            }
            lost = torch.stack([self._ask(operator, p) for p in self.prompts]).mean(0)  # [forks]
        found["retrieval_clean"], found["retrieval_damaged"] = float(lost[0]), float(lost[1:].mean())
        return {**found, "loss": sum(found.values())}

    def _text(self, operator: Repair | None, damaged: bool) -> float:
        injection = self.family.mixture(draw=_DRAW) if damaged else None
        values = []
        for teacher in self.teachers:
            logits = study(self.model, teacher, operator, injection).logits
            clean, other = (F.log_softmax(z.float(), -1) for z in (teacher.logits, logits))
            values.append(F.kl_div(other, clean, reduction="none", log_target=True).sum(-1).mean(-1))
        return float(torch.cat(values).mean())

    def _ask(self, operator: Repair | None, prompt: Prompt) -> Tensor:
        """The KL of a prompt's choices to those from the clean state, for every fork."""
        with medic(self.model, repair=operator), shared_layers(self.model):
            found = _choices(self.model, self.task, prompt.example, prompt.state)  # [forks, choices]
        return (prompt.known.exp() * (prompt.known - found)).sum(-1)


def settled(operator: Trained, validation: Validation) -> Record:
    """Switch off every part of `operator` without which validation is no worse: it keeps its identity.

    Parts are tried one after the other. Returns which are off, and the loss before and after.
    """
    before = best = validation.measure(operator)
    off = []
    for part in track(operator.parts(), "switching parts off"):
        operator.switch(part, False)
        without = validation.measure(operator)
        if without["loss"] <= best["loss"]:
            best = without
            off.append(part)
        else:
            operator.switch(part, True)
    return {"off": off, "of": len(operator.parts()), "before": before, "after": best}


def _prompts(config: MedicConfig, model: Any, tokenizer: Any) -> ChoiceTask:
    data = config.data.multikey.model_copy(
        update={"num_examples": config.train.validation_prompts, "seed": config.seed + _APART}
    )
    other = config.model_copy(update={"data": config.data.model_copy(update={"multikey": data})})
    return MultikeyTask.build(other, model, tokenizer)


def _damaged(model: Any, family: CorruptionFamily, task: ChoiceTask, example: Example, number: int) -> Prompt:
    """A prompt's state undamaged, and under every type of the mixture: severities take turns."""
    clean = prefill(model, example.stored)
    fitted = family.fitted(len(example.stored), task.axes, example.focus)
    severities = family.config.train_eps or (None,)
    states = [clean]
    for turn, kind in enumerate(sorted(name for name, share in family.config.mixture.items() if share > 0)):
        cache = clean.cache()
        epsilon = severities[(number + turn) % len(severities)]
        fitted.at(kind, epsilon, draw=_DRAW).corrupt_cache(cache, [example.key])
        states.append(KVState(cache))
    return Prompt(example, stack(states), _choices(model, task, example, clean)[0])


def _choices(model: Any, task: ChoiceTask, example: Example, state: KVState) -> Tensor:
    """Log-probabilities of the choices among themselves, for every row of `state`: `[rows, choices]`."""
    scores = task.score(model, example, state.cache(), state.batch)
    each = torch.tensor([score.detail["logprobs"] for score in scores], dtype=torch.float64)
    return each.log_softmax(-1)
