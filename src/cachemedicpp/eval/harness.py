"""The model `homeostat` of lm-evaluation-harness: every task of the harness, answered from a damaged cache.

    python -m cachemedicpp.eval.harness run --model homeostat --tasks arc_easy \
        --model_args pretrained=smollm2-135m,corruption=gaussian,epsilon=0.32,repair=clipping_renorm

The context of a request is prefilled, what the cache then holds is damaged and repaired at rest, and the
continuation is scored or generated from it. Requests with the same context get the same damage. The harness
finds only models of its own by name, so this module is its command line with one model more; in Python,
import the module before `lm_eval.simple_evaluate(model="homeostat", …)`. Needs the extra `lm-eval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.shared import shared_layers
from cachemedicpp.cache.state import KVState, stack
from cachemedicpp.corruption import CorruptionFamily, Injection
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig
from cachemedicpp.corruption.streams import sequence_keys
from cachemedicpp.repair.base import load_repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.defences import Defence, Forks, Guarded
from cachemedicpp.repair.heuristics import heuristic, heuristics
from homeostat.core.errors import UserError
from homeostat.core.models import DEFAULT_MODEL, load_model
from homeostat.core.progress import say

try:
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM
except ImportError as error:
    raise UserError(
        f"{error}: install lm-evaluation-harness with pip install '.[lm-eval]' in a checkout"
    ) from None

Scored = tuple[float, bool]  # log-likelihood of a continuation, and whether greedy decoding would write it
MIXTURE = "mixture"


@register_model("homeostat")
class DamagedLM(HFLM):
    """The harness's own `hf` model, except that contexts are read from a cache at rest."""

    def __init__(
        self,
        pretrained: str = DEFAULT_MODEL,
        corruption: str = "none",
        epsilon: float | None = None,
        repair: str = "none",
        protect_layers: str = "all",
        n_recent: int = 0,
        seed: int = 0,
        dtype: str = "float32",
        device: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> None:
        """`corruption`: a type, `mixture` or `none`; `repair`: `none`, a heuristic, `guard`, or a folder.

        `epsilon` is the severity (without it, the configured one); the last `n_recent` positions of a context
        are not damaged.
        """
        model, tokenizer = load_model(pretrained, revision=revision, device=device or "auto", dtype=dtype)
        super().__init__(pretrained=model, tokenizer=tokenizer, **options)
        layers = RepairConfig.model_validate({"protect_layers": protect_layers}).layers(
            int(model.config.get_text_config().num_hidden_layers)
        )
        axes = AxesConfig(head_mode="all", time_mode="old_only", N_recent=n_recent)
        family = CorruptionFamily.build(CorruptionConfig(axes=axes), model, tokenizer, layers, seed)
        self.injection = _injection(family, corruption, epsilon)
        self.defence = _defence(repair, layers, axes, model)
        self._stored_of_rolling = 0.0
        self.n_recent = n_recent
        self.contexts, self.undamaged = 0, 0

    def _loglikelihood_tokens(
        self, requests: Sequence[Any], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[Scored]:
        """One prefill per context, and one batch with a row for each of its continuations."""
        places: dict[tuple[int, ...], list[int]] = {}
        split = [self._split(context, continuation) for _, context, continuation in requests]
        for place, (stored, _) in enumerate(split):
            places.setdefault(stored, []).append(place)
        answers: dict[int, Scored] = {}
        for stored, wanted in self._progress(places, disable_tqdm):
            size = self._rows(override_bs)
            for start in range(0, len(wanted), size):
                chunk = wanted[start : start + size]
                found = self._score(stored, [split[place][1] for place in chunk])
                answers |= zip(chunk, found, strict=True)
        for place, (request, _, _) in enumerate(requests):
            if request is not None:
                self.cache_hook.add_partial("loglikelihood", request, answers[place])
        self._report()
        return [answers[place] for place in range(len(requests))]

    def _split(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[tuple[int, ...], _Asked]:
        """What is stored, and what is read from it: the last token of the context and the continuation."""
        whole = [*context, *continuation][-(self.max_length + 1) :]
        scored = len(continuation)
        stored = len(whole) - scored - 1
        if self._stored_of_rolling:  # no context of its own: the first part of the window is what is stored
            stored = int(len(whole) * self._stored_of_rolling)
        return tuple(whole[:stored]), (tuple(whole[stored:]), len(whole) - scored - stored)

    def _score(self, stored: Sequence[int], asked: Sequence[_Asked]) -> list[Scored]:
        """`asked`: tokens, and how many of them are context; below 0, so many scored ones are stored."""
        rows = len(asked)
        longest = max(len(tokens) for tokens, _ in asked)
        padded = [[*tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens, _ in asked]
        ids = torch.tensor(padded, device=self.model.device)
        with torch.no_grad(), ExitStack() as duty:
            cache = self._at_rest(stored, rows, duty)
            before = [self._written(stored, *row) if row[1] < 1 else (0.0, True) for row in asked]
            logits = self.model(ids[:, :-1], past_key_values=cache, use_cache=True).logits
        logprob = logits.float().log_softmax(-1)
        found = []
        for row, ((tokens, given), (earlier, greedy)) in enumerate(zip(asked, before, strict=True)):
            first = max(given, 1)
            own = logprob[row, first - 1 : len(tokens) - 1]
            target = ids[row, first : len(tokens)]
            total = float(own.gather(-1, target[:, None]).sum()) + earlier
            found.append((total, greedy and bool((own.argmax(-1) == target).all())))
        return found

    def _written(self, stored: Sequence[int], tokens: Sequence[int], given: int) -> Scored:
        """The scored tokens of a rolling window that the store was written from, and the one after them."""
        ids = torch.tensor([[*stored, tokens[0]]], device=self.model.device)
        first = len(stored) + given
        logprob = self.model(ids[:, :-1]).logits[0, first - 1 :].float().log_softmax(-1)
        target = ids[0, first:]
        return float(logprob.gather(-1, target[:, None]).sum()), bool((logprob.argmax(-1) == target).all())

    def _at_rest(self, stored: Sequence[int], rows: int, duty: ExitStack) -> Any:
        """The stored tokens' cache, damaged and repaired, for `rows` rows; None where nothing is stored."""
        self.contexts += 1
        old = len(stored) - self.n_recent
        self.undamaged += self.injection is not None and old <= 0
        if not stored:
            return None
        clean = prefill(self.model, stored)
        cache, plan = clean.cache(), None
        if self.injection is not None and old > 0:
            keys = sequence_keys(torch.tensor([list(stored)]))
            plan = _fitted(self.injection, len(stored)).corrupt_cache(cache, keys)
        self.defence.mend(self.model, cache, Forks(tuple(stored), clean, [plan], KVState(cache)))
        duty.enter_context(self.defence.attached(self.model))
        duty.enter_context(shared_layers(self.model))
        return stack([KVState(cache)] * rows).cache()

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Whole texts have no context: under damage the first half of every window is stored.

        That half is scored while it is written, clean; the second half is read from the damaged store.
        """
        self._stored_of_rolling = 0.5 if self.injection or self.defence.name != "none" else 0.0
        try:
            return super().loglikelihood_rolling(requests, disable_tqdm)  # type: ignore[no-any-return]
        finally:
            self._stored_of_rolling = 0.0

    def _model_generate(self, context: Tensor, max_length: int, stop: list[str], **options: Any) -> Tensor:
        """Row by row, each from its own cache at rest; rows are padded to one length again."""
        mask = options.pop("attention_mask")
        rows = []
        for row, real in zip(context, mask.bool(), strict=True):
            ids = row[real]
            with torch.no_grad(), ExitStack() as duty:
                cache = self._at_rest(tuple(ids[:-1].tolist()), 1, duty)
                room = max_length - len(row) + len(ids)
                given = {} if cache is None else {"past_key_values": cache}
                new = super()._model_generate(
                    ids[None], room, stop, attention_mask=torch.ones_like(ids[None]), **given, **options
                )
            rows.append(torch.cat((row, new[0, len(ids) :])))
        self._report()
        padding = float(self.tokenizer.pad_token_id)
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)

    def _rows(self, override: int | None) -> int:
        size = override or self.batch_size
        return size if isinstance(size, int) else 16

    def _progress(self, places: dict[tuple[int, ...], list[int]], silent: bool) -> Any:
        from homeostat.core.progress import track

        return places.items() if silent else track(list(places.items()), "contexts")

    def _report(self) -> None:
        if self.undamaged:
            say(
                f"{self.undamaged} of {self.contexts} contexts had nothing that could be damaged (too short "
                "for n_recent, or empty): their scores are clean"
            )
        self.contexts, self.undamaged = 0, 0


_Asked = tuple[tuple[int, ...], int]


def _fitted(injection: Injection, length: int) -> Injection:
    """The same choice, with an overwrite window that lies inside a context of `length`."""
    family = injection.family.fitted(length)
    fixed = injection.fixed and family.corruption(injection.fixed.name, injection.epsilon)
    return replace(injection, family=family, fixed=fixed)


def _injection(family: CorruptionFamily, name: str, epsilon: float | None) -> Injection | None:
    if name == "none":
        return None
    return family.mixture() if name == MIXTURE else family.at(name, epsilon)


def _defence(name: str, layers: Sequence[int], axes: AxesConfig, model: Any) -> Defence:
    if name == "none":
        return Defence()
    if name == "guard":
        return Guarded()
    simple = heuristics(calibrated=False)
    if name in heuristics() and name not in simple:
        raise UserError(
            f"repair={name}: it needs levels calibrated on a text, which a harness run does not have; use "
            f"{', '.join(simple)}, guard, or the folder of a calibrated or trained operator"
        )
    repair = heuristic(name, layers, axes=axes) if name in simple else load_repair(name, model)
    return Defence(name, repair=repair)


def main() -> None:
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
