"""The two forward passes of a training step: the clean teacher and the student that reads a damaged cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.shared import entering, resumed_at
from cachemedicpp.cache.state import KV, KVState, write
from cachemedicpp.corruption import Injection, Plan, sequence_keys
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.operators import Trained


@dataclass(frozen=True)
class Teacher:
    """One clean forward over prefix and continuation: the stored state, and what should follow from it."""

    prefix: Tensor  # [B, P] token ids
    continuation: Tensor  # [B, C]
    state: KVState  # of the prefix
    logits: Tensor  # [B, C, vocabulary]: at every continuation position
    entered: tuple[int, Tensor]  # a layer, and what entered it at every continuation position: [B, C, hidden]


@dataclass
class Student:
    """The same continuation, read from a damaged cache through a repair."""

    logits: Tensor  # [B, C, vocabulary]
    plan: Plan | None  # None: the cache was left clean
    stored: dict[int, KV] = field(default_factory=dict)  # by protected layer, as damaged
    repaired: dict[int, KV] = field(default_factory=dict)


def teach(model: Any, ids: Tensor, prefix_len: int, first: int = 0) -> Teacher:
    """The causal mask makes the prefix's part of one long forward the same as a separate prefill.

    `first` is the first layer that students will find damaged or repaired: they go on from there.
    """
    ids = ids.to(model.device)
    keep = ids.shape[1] - prefix_len
    seen: list[Tensor] = []
    with torch.no_grad(), entering(model, first, seen.append):
        out = model(input_ids=ids, use_cache=True, logits_to_keep=keep)
    out.past_key_values.crop(-keep)
    entered = first, seen[0][:, prefix_len:]
    return Teacher(
        ids[:, :prefix_len], ids[:, prefix_len:], KVState(out.past_key_values), out.logits, entered
    )


def study(
    model: Any, teacher: Teacher, repair: Repair | None, injection: Injection | None, observe: bool = False
) -> Student:
    """Damage the stored prefix (unless `injection` is None) and read the continuation through `repair`."""
    cache = teacher.state.cache()
    plan = None
    if injection is not None:
        plan = injection.corrupt_cache(cache, sequence_keys(teacher.prefix))
    if isinstance(repair, Trained) and repair.whole_cache:
        student = Student(teacher.logits, plan)
        student.stored = {layer: KVState(cache)[layer] for layer in repair.layers}
        student.repaired = repair.mend(student.stored, {})
        write(cache, student.repaired)
        with resumed_at(model, *teacher.entered):
            student.logits = model(input_ids=teacher.continuation, past_key_values=cache).logits
        return student
    seen: dict[int, tuple[Tensor, KV]] = {}
    with medic(model, repair=repair) as session, resumed_at(model, *teacher.entered):
        if observe and session.repairing is not None:
            session.repairing.observer = lambda layer, query, stored: seen.update({layer: (query, stored)})
        logits = model(input_ids=teacher.continuation, past_key_values=cache).logits
    student = Student(logits, plan)
    if isinstance(repair, Trained):
        for layer, (query, stored) in seen.items():
            student.stored[layer] = stored
            student.repaired[layer] = repair.mean_repair(layer, query, stored)
    return student


@contextmanager
def frozen(model: Any) -> Iterator[None]:
    """The base model gets no gradients and no dropout inside the block, and is as before after it."""
    flags = [(p, p.requires_grad) for p in model.parameters()]
    training = model.training
    model.requires_grad_(False).eval()
    try:
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
        model.train(training)
