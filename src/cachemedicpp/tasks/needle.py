"""The needle check: can the model still find one statement in an old part of its cache?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cachemedicpp.cache.growing import make_room
from cachemedicpp.tasks.base import Example, Score, Task, check_length, register, rows
from cachemedicpp.tasks.haystack import STATEMENT, LongContextConfig, generate, matches, matches_strictly
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

STEP = 0.05  # by so much a needle stands earlier in each draw, until damage can reach all of it
DRAWS = int(1 / STEP) + 1


@register(
    "needle", "needle accuracy", settings=LongContextConfig, section="long_context", term="needle", order=3
)
@dataclass(frozen=True)
class NeedleTask(Task):
    tokenizer: Any

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> NeedleTask:
        wanted = config.data.long_context
        longest = max(wanted.lengths or [wanted.context_len])
        needed = longest + wanted.max_new_tokens
        check_length(cls.name, needed, f"data.long_context: a context of {longest} tokens", model)
        answer = tokenizer(f" {wanted.needle_value}", add_special_tokens=False)["input_ids"]
        if len(answer) > wanted.max_new_tokens:
            raise UserError(
                f"data.long_context.needle_value = {wanted.needle_value!r} takes {len(answer)} tokens, "
                f"more than max_new_tokens = {wanted.max_new_tokens}"
            )

        def draw(seed: int, index: int, number: int) -> Example:
            made = generate(wanted, tokenizer, seed, index, STEP * number)
            return made.example(f"needle:{seed}:{index}", made.answer)

        settings = {
            "statement": STATEMENT,
            "question_template": wanted.question_template,
            "needle_token": wanted.needle_token,
            "needle_value": wanted.needle_value,
            "depths": wanted.depths or [wanted.position_frac],
            "context_lens": wanted.lengths or [wanted.context_len],
            "max_new_tokens": wanted.max_new_tokens,
            "chat": bool(getattr(tokenizer, "chat_template", None)) if wanted.chat is None else wanted.chat,
        }
        axes = config.corruption.axes.model_copy(update={"time_mode": "old_only"})
        return cls.generated(config, axes, draw, settings, DRAWS, tokenizer=tokenizer)

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        most = self.settings["max_new_tokens"]
        answers = greedy(model, self.tokenizer, example.query, cache, forks, most)
        found = []
        for answer in answers:
            strict = float(matches_strictly(answer, example.target))
            detail = {"answer": answer, "value": example.target, "strict": strict}
            found.append(Score(float(matches(answer, example.target)), detail=detail))
        return found


def greedy(
    model: Any, tokenizer: Any, query: Sequence[int], cache: Any, forks: int, max_new_tokens: int
) -> list[str]:
    """Greedy continuations of all forks in one batch; a fork is done at its end-of-text token.

    Forks that are done leave the batch once they are half of it, unless something attached to the model keeps
    account of the batch's rows.
    """
    stops = _stop_ids(model, tokenizer).to(model.device)
    fixed = model.config.get_text_config()._attn_implementation not in ("sdpa", "eager")
    ids = rows(query, forks, model)
    chosen = torch.full((forks, max_new_tokens), tokenizer.pad_token_id, device=model.device)
    running = torch.arange(forks, device=model.device)  # the fork in each row of the batch
    done = torch.zeros(forks, dtype=torch.bool, device=model.device)  # of each row
    for step in range(max_new_tokens):
        logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        if step == 0:
            make_room(cache, max_new_tokens)  # not before: layers that forks share are one tensor until here
        ids = logits.argmax(-1, keepdim=True)  # [rows, 1]
        chosen[running[~done], step] = ids[~done, 0]
        done |= torch.isin(ids[:, 0], stops)
        if bool(done.all()):
            break
        if not fixed and 2 * int(done.sum()) >= len(done):
            left = (~done).nonzero().squeeze(1)
            cache.batch_select_indices(left)
            ids, done, running = ids[left], done[left], running[left]
    return list(tokenizer.batch_decode(chosen[:, : step + 1], skip_special_tokens=True))


def _stop_ids(model: Any, tokenizer: Any) -> Any:
    stops = getattr(model.generation_config, "eos_token_id", None)
    found = {tokenizer.eos_token_id, *(stops if isinstance(stops, list) else [stops])}
    return torch.tensor(sorted(int(stop) for stop in found if stop is not None))
