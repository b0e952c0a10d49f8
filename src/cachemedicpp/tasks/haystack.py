"""The needle generator: a long context with one statement to remember, made from a seed and nothing else."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cachemedicpp.tasks.config import LongContextConfig
from homeostat.core.errors import UserError

PREFIX = "There is one line that begins with NEEDLE in this text. Find it."
STATEMENT = "NEEDLE: {needle_token} = {needle_value}."

_WHO = (
    "the ferryman", "a retired surveyor", "the night porter", "our neighbour", "the beekeeper",
    "a young clerk", "the schoolteacher", "an old cartographer", "the gardener", "a passing cyclist",
    "the librarian", "the baker",
)  # fmt: skip
_DID = (
    "counted the boats", "repaired a wooden gate", "wrote a short letter", "swept the courtyard",
    "measured the water level", "carried two baskets of apples", "read the newspaper twice",
    "waited for the rain to end", "painted the shutters", "sorted a box of nails", "fed the horses",
    "listened to the radio",
)  # fmt: skip
_WHERE = (
    "near the old mill", "beside the canal", "at the edge of the village", "behind the chapel",
    "on the upper terrace", "in the market square", "under the long bridge", "by the railway line",
    "at the top of the hill", "in the quiet harbour",
)  # fmt: skip
_WHEN = (
    "before breakfast", "late in the afternoon", "on a windy morning", "after the bells had rung",
    "while the shops were closed", "at the end of the week", "shortly before dusk", "for most of the day",
)  # fmt: skip
_THEN = (
    "Nobody thought it unusual.", "The weather stayed mild.", "A dog barked somewhere in the distance.",
    "There was little else to report.", "The lamps were lit a little later.", "It was soon forgotten.",
    "The river was high for the season.", "Supper was late that evening.",
)  # fmt: skip


@dataclass(frozen=True)
class NeedlePrompt:
    """One example: the text as the model gets it, its tokens, and the answer that is right."""

    text: str
    ids: tuple[int, ...]
    answer: str


def generate(config: LongContextConfig, tokenizer: Any, seed: int, index: int) -> NeedlePrompt:
    """Example `index` of the set made from `seed`: as much filler as fits into `context_len` tokens.

    The needle stands after `position_frac` of the filler. Everything counts towards `context_len`: the
    prefix, the needle, the question, and the chat format where there is one.
    """
    rng = random.Random(f"{seed}:{index}")
    filler: list[str] = []
    render = _renderer(config, tokenizer)
    ids = render(_context(filler, config))[1]
    if len(ids) > config.context_len:
        raise UserError(
            f"data.long_context.context_len = {config.context_len}: the prompt takes {len(ids)} tokens "
            "without any filler; choose a longer context"
        )
    while len(ids) <= config.context_len:
        room = config.context_len - len(ids)
        filler += [_sentence(rng) for _ in range(max(1, room // 40))]
        ids = render(_context(filler, config))[1]
    while len(ids) > config.context_len:
        filler.pop()
        ids = render(_context(filler, config))[1]
    text, ids = render(_context(filler, config))
    return NeedlePrompt(text, tuple(ids), config.needle_value)


def extract(answer: str, value: str, token: str) -> str:
    """The value in an answer: what follows a restatement such as `The_key =`, without outer punctuation.

    Only the first line counts, and of it as many words as the wanted value has.
    """
    line = answer.strip().partition("\n")[0]
    name = "[ _-]".join(re.escape(part) for part in re.split(r"[ _-]", token))
    restated = re.search(rf"\b{name}\s*(?:is|=|:)\s*(.*)", line, flags=re.IGNORECASE)
    words = (restated.group(1) if restated else line).split()[: len(value.split())]
    return _stripped(" ".join(words))


def matches(answer: str, value: str, token: str) -> bool:
    """Exact match of the extracted value, whitespace and punctuation at its ends aside."""
    return extract(answer, value, token) == _stripped(value)


def _stripped(text: str) -> str:
    return text.strip(string.whitespace + string.punctuation)


def _sentence(rng: random.Random) -> str:
    who, did, where, when = (rng.choice(part) for part in (_WHO, _DID, _WHERE, _WHEN))
    sentence = f"{who} {did} {where} {when}."
    sentence = sentence[0].upper() + sentence[1:]
    return f"{sentence} {rng.choice(_THEN)}" if rng.random() < 0.4 else sentence


def _context(filler: list[str], config: LongContextConfig) -> str:
    statement = STATEMENT.format(needle_token=config.needle_token, needle_value=config.needle_value)
    place = int(config.position_frac * len(filler))
    return " ".join([PREFIX, *filler[:place], statement, *filler[place:]])


def _renderer(config: LongContextConfig, tokenizer: Any) -> Callable[[str], tuple[str, list[int]]]:
    """How a context becomes a prompt: chat format where the tokenizer has one, or as configured."""
    question = config.question_template.format(needle_token=config.needle_token)
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if config.chat and not has_template:
        raise UserError("data.long_context.chat = true: this model's tokenizer has no chat template")
    chat = has_template if config.chat is None else config.chat

    def render(context: str) -> tuple[str, list[int]]:
        body = f"{context}\n\n{question}"
        if not chat:
            return body, list(tokenizer(body)["input_ids"])
        message = [{"role": "user", "content": body}]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        return text, list(tokenizer(text, add_special_tokens=False)["input_ids"])

    return render
