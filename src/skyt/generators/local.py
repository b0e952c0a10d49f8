"""A transformers model on this machine, sampled in batches with a seed for each sample.

Sampling is argmax of `logits / temperature + Gumbel noise`, which draws exactly from the softmax. The noise
of a sample comes from its own generator, so a sample does not depend on its neighbours or on the batch size,
as far as the logits do not: batched matrix products may differ in the last bits from single ones, and very
rarely that decides an almost even choice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from homeostat.core.errors import UserError
from homeostat.core.models import ModelConfig
from homeostat.core.progress import progress
from skyt.generators.base import Failure, Output, Request, Source

if TYPE_CHECKING:
    import torch


class LocalGenerator(Source):
    """A transformers model on this machine."""

    loads_model: ClassVar[bool] = True
    kind: Literal["local"] = "local"
    model: ModelConfig = ModelConfig()
    max_new_tokens: int = Field(320, ge=1)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    batch_size: int = Field(8, ge=1, description="samples at a time; does not change them")

    @property
    def name(self) -> str:
        return self.model.name

    def make(self) -> LocalModel:
        with progress(f"loading {self.name}"):
            return LocalModel(self, *self.model.load())

    def check(self, reachable: bool = True) -> None:
        self.model.check()


class LocalModel:
    """Generates with a loaded model and its chat template."""

    def __init__(self, config: LocalGenerator, model: Any, tokenizer: Any) -> None:
        self._config, self._model, self._tokenizer = config, model, tokenizer
        self.name = config.name
        self._far: Callable[[float], None] | None = None

    def watch(self, far: Callable[[float], None] | None) -> None:
        """Tell `far` how many samples' worth of work is under way, token by token."""
        self._far = far

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        """Each sample as soon as it ends, not only when its whole batch does."""
        for batch in self._batches(requests):
            async with aclosing(self._outputs(batch)) as outputs:
                async for output in outputs:
                    yield output

    async def _outputs(self, batch: list[Request]) -> AsyncGenerator[Output, None]:
        loop, ready, stop = asyncio.get_running_loop(), asyncio.Queue[Output | None](), threading.Event()

        def hand_out(output: Output | None) -> None:
            loop.call_soon_threadsafe(ready.put_nowait, output)

        work = asyncio.ensure_future(asyncio.to_thread(self._sample, batch, hand_out, stop))
        try:
            while (output := await ready.get()) is not None:
                yield output
            await work
        finally:  # an interrupted batch ends with its next token
            stop.set()
            await asyncio.gather(work, return_exceptions=True)

    def _batches(self, requests: Sequence[Request]) -> Iterator[list[Request]]:
        """Batches of one prompt at one temperature: no padding, and one distribution to sample from."""
        for _, group in groupby(requests, key=lambda r: (r.contract_id, r.prompt, r.temperature)):
            same = list(group)
            for start in range(0, len(same), self._config.batch_size):
                yield same[start : start + self._config.batch_size]

    def _sample(
        self, batch: list[Request], hand_out: Callable[[Output | None], None], stop: threading.Event
    ) -> None:
        from skyt.generators.watch import Watch, ends_of

        try:
            ids = self._prompt_ids(batch[0].prompt)  # [1, T]

            def ended(row: int, tokens: torch.Tensor) -> None:
                text = self._tokenizer.batch_decode(tokens[None], skip_special_tokens=True)[0]
                hand_out(Output(batch[row], text))

            limit = self._config.max_new_tokens
            watch = Watch(ids.shape[1], limit, ends_of(self._model), ended, self._far, stop)
            noise = GumbelSampling([r.seed for r in batch], batch[0].temperature, self._config.top_p)
            watch.finish(continued(self._model, self._tokenizer.pad_token_id, ids, noise, limit, watch))
        finally:
            hand_out(None)

    def _prompt_ids(self, prompt: str) -> torch.Tensor:
        plain = self._tokenizer.chat_template is None
        asked = prompt if plain else [{"role": "user", "content": prompt}]
        ids, longest = prompt_ids(self._model, self._tokenizer, asked)
        if longest is not None and ids.shape[1] + self._config.max_new_tokens > longest:
            raise UserError(
                f"the prompt has {ids.shape[1]} tokens and max_new_tokens = {self._config.max_new_tokens}, "
                f"more than the {longest} positions of {self.name}: lower generator.max_new_tokens"
            )
        return ids


def prompt_ids(
    model: Any, tokenizer: Any, prompt: str | list[dict[str, str]]
) -> tuple[torch.Tensor, int | None]:
    """The tokens of a text, or of messages in the model's chat template [1, T], and the model's positions."""
    if isinstance(prompt, str):
        encoded = tokenizer(prompt, return_tensors="pt")
    else:
        encoded = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
    return encoded["input_ids"].to(model.device), getattr(model.config, "max_position_embeddings", None)


def continued(
    model: Any, pad: int, ids: torch.Tensor, noise: GumbelSampling, limit: int, watch: Any, **more: Any
) -> torch.Tensor:
    """The new tokens of one continuation of `ids` [1, T] for each seed of the noise: [B, new]."""
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    rows = ids.expand(noise.rows, -1)  # [B, T]
    with torch.inference_mode():
        out: torch.Tensor = model.generate(
            input_ids=rows,
            attention_mask=torch.ones_like(rows),
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            max_new_tokens=limit,
            pad_token_id=pad,
            logits_processor=LogitsProcessorList([noise]),
            stopping_criteria=StoppingCriteriaList([watch]),
            **more,
        )  # [B, T + new]
    return out[:, ids.shape[1] :]


class GumbelSampling:
    """A logits processor that turns greedy choice into sampling, with a random stream for each row."""

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        import torch

        self.rows, self._temperature, self._top_p = len(seeds), temperature, top_p
        self._streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        if self._temperature == 0.0:
            return scores
        scores = scores.float() / self._temperature  # [B, V]
        if self._top_p < 1.0:
            scores = _nucleus(scores, self._top_p)
        waits = torch.stack(
            [torch.empty(scores.shape[1]).exponential_(generator=stream) for stream in self._streams]
        )  # [B, V]; minus the logarithm of an exponential variable is a Gumbel one
        return scores - waits.clamp_min(torch.finfo(torch.float32).tiny).log().to(scores.device)


def _nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the likeliest tokens that together hold `top_p`; the first one always stays."""
    import torch

    ordered, order = torch.sort(scores, descending=True, dim=-1)
    before = torch.softmax(ordered, dim=-1).cumsum(dim=-1) - torch.softmax(ordered, dim=-1)
    likely = torch.where(before < top_p, ordered, -torch.inf)
    return torch.empty_like(scores).scatter_(-1, order, likely)
