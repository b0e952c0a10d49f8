"""Long contexts made from a seed and nothing else: statements to remember among filler sentences."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, field_validator

from cachemedicpp.tasks.base import Example, GeneratedConfig
from homeostat.core.errors import UserError

PREFIX = "There is one line that begins with NEEDLE in this text. Find it."
STATEMENT = "NEEDLE: {needle_token} = {needle_value}."

_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_NEGATED = r"(?:\b(?:not|never|no|neither|nor|without)|n['\u2019]t)\s+(?:the\s+)?[\"'\u2018\u201c]?$"
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
_SHORT = (
    "It was late by then, and everybody went home.", "The wind turned to the west.", "Nothing else happened.",
    "The road was empty.", "It rained.", "It rained.", "So it was.",
)  # fmt: skip
_COLOURS = ("violet", "amber", "silver", "crimson", "indigo", "golden", "scarlet", "ivory", "copper", "green")


class LongContextConfig(GeneratedConfig):
    """The needle generator's inputs."""

    num_examples: int = Field(200, ge=1)
    context_len: int = Field(
        1024, ge=64, description="tokens of the prompt, question and chat format included"
    )
    needle_token: str = Field("the_key", min_length=1)
    needle_value: str = Field("violet-7", min_length=1)
    position_frac: float = Field(0.35, ge=0.0, le=1.0)
    depths: list[Annotated[float, Field(ge=0.0, le=1.0)]] = Field(
        [], description="several values of position_frac, taken in turn; empty: position_frac alone"
    )
    lengths: list[Annotated[int, Field(ge=64)]] = Field(
        [], description="several values of context_len, taken in turn; empty: context_len alone"
    )
    question_template: str = "Question: What is {needle_token}? Answer:"
    chat: bool | None = Field(None, description="null: chat format exactly when the tokenizer has a template")
    max_new_tokens: int = Field(32, ge=1, description="room for an answer in a whole sentence")

    @field_validator("question_template")
    @classmethod
    def _names_the_needle(cls, template: str) -> str:
        try:
            names = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
        except ValueError as error:
            raise ValueError(f"not a valid template ({error})") from None
        if names != {"needle_token"}:
            found = ", ".join(sorted(names)) or "none"
            raise ValueError(f"must contain the field {{needle_token}} and no other (found: {found})")
        return template

    def place(self, index: int) -> tuple[float, int]:
        """Depth and length of example `index`: every depth at one length, then at the next."""
        depths, lengths = self.depths or [self.position_frac], self.lengths or [self.context_len]
        return depths[index % len(depths)], lengths[index // len(depths) % len(lengths)]


@dataclass(frozen=True)
class NeedlePrompt:
    """One example: the text as the model gets it, its tokens, the right answer and where it stands."""

    text: str
    ids: tuple[int, ...]
    answer: str
    focus: int  # the first token of the statement
    span: int  # how many tokens it takes

    def example(self, key: str, target: Any) -> Example:
        """All but the last token are stored."""
        return Example(key, self.ids[:-1], self.ids[-1:], target, self.focus, self.span)


Render = Callable[[str], tuple[str, list[int]]]  # a context as the text of a prompt and its tokens


def generate(
    config: LongContextConfig, tokenizer: Any, seed: int, index: int, earlier: float = 0.0
) -> NeedlePrompt:
    """Example `index` of the set made from `seed`; its needle stands `earlier` than its depth says.

    The needle stands after `position_frac` of the filler. Everything counts towards `context_len`: the
    prefix, the needle, the question, and the chat format where there is one. Where several depths and lengths
    are configured, the examples take them in turn.
    """
    depth, length = config.place(index)
    depth = max(0.0, depth - earlier)
    value = needle_value(config, seed, index)
    statement = STATEMENT.format(needle_token=config.needle_token, needle_value=value)
    render = _renderer(config, tokenizer)
    rng = random.Random(f"{seed}:{index}")
    text, ids = fill(rng, [(depth, statement)], render, length, "data.long_context.context_len", PREFIX)
    span = len(tokenizer(statement, add_special_tokens=False)["input_ids"])
    return NeedlePrompt(text, tuple(ids), value, token_at(tokenizer, text, ids, statement), span)


def needle_value(config: LongContextConfig, seed: int, index: int) -> str:
    """The configured value for example 0; then others of its form, so that no one answer fits them all.

    A colour and a number are drawn anew where the value is `word-number`; other values stay as they are.
    """
    word, dash, number = config.needle_value.partition("-")
    if index == 0 or not (dash and word.isalpha() and number.isdigit()):
        return config.needle_value
    rng = random.Random(f"needle value:{seed}:{index}")
    return f"{rng.choice(_COLOURS)}-{rng.randrange(1, 10)}"


def needle_values(value: str) -> list[str]:
    """Every value that may be drawn where `value` is configured, itself included."""
    return list(dict.fromkeys((value, *(f"{colour}-{n}" for colour in _COLOURS for n in range(1, 10)))))


def fill(
    rng: random.Random,
    statements: Sequence[tuple[float, str]],
    render: Render,
    length: int,
    setting: str,
    prefix: str = "",
) -> tuple[str, list[int]]:
    """A prompt of `length` tokens: statements, each after its share of the filler, among filler.

    Whole sentences to the end: what is missing then is less than the shortest of them.
    """
    filler: list[str] = []

    def made() -> tuple[str, list[int]]:
        parts = [*filler]
        for share, statement in sorted(statements, reverse=True):
            parts.insert(int(share * len(filler)), statement)
        return render(" ".join([prefix, *parts] if prefix else parts))

    text, ids = made()
    if len(ids) > length:
        raise UserError(
            f"{setting} = {length}: the prompt takes {len(ids)} tokens without any filler; "
            "choose a longer context"
        )
    while len(ids) <= length:
        filler += [sentence(rng) for _ in range(max(1, (length - len(ids)) // 40))]
        text, ids = made()
    while len(ids) > length:
        filler.pop()
        text, ids = made()
    for last in _SHORT:  # whole sentences to the end
        filler.append(last)
        tried = made()
        if len(tried[1]) > length:
            filler.pop()
        else:
            text, ids = tried
    return text, ids


def token_at(tokenizer: Any, text: str, ids: Sequence[int], statement: str) -> int:
    """The number of the token with which `statement` begins in the prompt `text`."""
    before = len(tokenizer(text[: text.index(statement)].rstrip(), add_special_tokens=False)["input_ids"])
    whole = len(tokenizer(text, add_special_tokens=False)["input_ids"])
    return before + len(ids) - whole  # a BOS token moves everything by one


def extract(answer: str, value: str) -> list[str]:
    """All that has the form of the wanted value in an answer, each once, in small letters.

    The form of `violet-7` is letters, a dash (any of Unicode's), digits. A value of letters alone has no form
    that would tell it from other words: it is looked for as it is.
    """
    answer, value = (_DASHES.sub("-", text) for text in (answer, value))
    words = re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]", value)
    form = "".join(
        r"[A-Za-z]+" if w[0].isalpha() and w.isascii() else r"\d+" if w.isdigit() else re.escape(w)
        for w in words
    )
    wanted = form if any(w.isdigit() for w in words) else re.escape(value)
    found = re.findall(rf"(?<![\w-]){wanted}(?!\w|-\w|[.,]\d)", answer, flags=re.IGNORECASE)
    return list(dict.fromkeys(text.casefold() for text in found))


def matches(answer: str, value: str) -> bool:
    """The value stands in the answer, not denied, and nothing else of its form does. Case aside."""
    if extract(answer, value) != [_DASHES.sub("-", value).casefold()]:
        return False
    plain, wanted = _DASHES.sub("-", answer).casefold(), _DASHES.sub("-", value).casefold()
    before = [plain[: found.start()] for found in re.finditer(re.escape(wanted), plain)]
    return not any(re.search(_NEGATED, part) for part in before)


def matches_strictly(answer: str, value: str) -> bool:
    """The answer is the value and nothing else, whitespace and punctuation at its ends aside."""
    strip = string.whitespace + string.punctuation
    return answer.strip(strip) == value.strip(strip)


def sentence(rng: random.Random) -> str:
    """One sentence of filler."""
    who, did, where, when = (rng.choice(part) for part in (_WHO, _DID, _WHERE, _WHEN))
    made = f"{who} {did} {where} {when}."
    made = made[0].upper() + made[1:]
    return f"{made} {rng.choice(_THEN)}" if rng.random() < 0.4 else made


def _renderer(config: LongContextConfig, tokenizer: Any) -> Render:
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
