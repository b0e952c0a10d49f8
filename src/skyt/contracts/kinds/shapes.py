"""Strings on which string programs fall apart: nested and nearly nested, palindromes by some reading, words
between all kinds of separators, and Unicode that changes length or meaning when its case does."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from skyt.contracts.kinds.texts import StrSpec

Texts = st.SearchStrategy[str]

BRACKETS = "()[]{}"
# Characters on which string programs fall apart: separators, digits of other scripts, case pairs that change
# length or depend on position (dotted I, sharp s, final sigma), letters whose lower case is ASCII (Kelvin
# sign), combining marks, a joiner and an emoji.
_TRICKY = (
    " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000-_.,;:!?'\"/\\@#&%+*()[]{}<>|~^$=\x00"
    "\u00b2\u00bd\u0663\u00df\u00c9\u00e9\u00f1\u0130\u0131\u03a3\u03c3\u03c2\u212a\u212b\ufb01\u6f22"
    "\u0301\u0308\u200d\U0001f642"
)
_ASCII = "abcxyzABCXYZ0189"
_WORDS = ["Hello", "World", "Python", "3.9", "release", "CamelCase", "don't", "e-mail", "snake_case", "naïve"]
_WORDS += ["A", "\u039f\u0394\u039f\u03a3", "C++", "100%"]
_GAPS = [" ", "  ", "-", " - ", "_", "--", "\t", "\n", " \u00a0", ". ", ", ", "! ", "/", "", "..."]


def texts(spec: StrSpec) -> Texts:
    """Strings of a spec, structured more often than not."""
    least, most = spec.sample_lengths
    if spec.regex is not None:
        return st.from_regex(spec.regex, fullmatch=True, alphabet=st.characters(codec="utf-8"))
    known = spec.alphabet if spec.alphabet is not None else spec.sample_alphabet
    if known is not None:
        letters = st.sampled_from(known) if known else st.nothing()
        plain = _sizes(letters, least, most)
        return plain | brackets(most, filler=False) if spec.shape == "brackets" else plain
    kinds = [_sizes(st.sampled_from(letters), least, most) for letters in _alphabets()]
    return st.one_of(_SHAPES[spec.shape](most), _SHAPES[spec.shape](most), st.one_of(kinds))


def _alphabets() -> list[str]:
    return [_ASCII, _ASCII + " -_.", _TRICKY, _TRICKY + _ASCII * 4, BRACKETS]


def _sizes(letters: st.SearchStrategy[str], least: int, most: int) -> Texts:
    """Short strings, longer ones, and strings of every length."""
    sizes = sorted({(least, max(least, min(4, most))), (least, max(least, min(12, most))), (least, most)})
    return st.one_of(
        [st.lists(letters, min_size=low, max_size=high).map("".join) for low, high in sizes]
        + [st.integers(least, most).flatmap(lambda n: st.lists(letters, min_size=n, max_size=n)).map("".join)]
    )


@st.composite
def words(draw: Any, most: int) -> str:
    """One to four words between gaps of all kinds."""
    parts = [draw(st.sampled_from(["", "", *_GAPS]))]
    for _ in range(draw(st.integers(1, 4))):
        parts += [draw(st.sampled_from(_WORDS)), draw(st.sampled_from(_GAPS))]
    return "".join(parts[: len(parts) - draw(st.integers(0, 1))])[:most]


@st.composite
def brackets(draw: Any, most: int, *, filler: bool = True) -> str:
    """A correctly nested string, often with one flaw, sometimes with letters in between."""
    text: list[str] = []
    expected: list[str] = []
    kinds = draw(st.lists(st.sampled_from(["()", "[]", "{}"]), min_size=1, max_size=3))
    closes = draw(st.integers(0, 5))  # of ten: none makes the deepest nesting
    for _ in range(draw(st.integers(2, max(2, most)))):
        if expected and closes and draw(st.integers(1, 10)) <= closes:
            text.append(expected.pop())
        else:
            pair = draw(st.sampled_from(kinds))
            text.append(pair[0])
            expected.append(pair[1])
    text += reversed(expected)
    if draw(st.booleans()):
        text = _flawed(draw, text, BRACKETS)
    if filler and draw(st.integers(0, 4)) < 2:
        text = _sprinkled(draw, text, "ab1 <>,\"'\n/é")
    return "".join(text)


@st.composite
def palindromes(draw: Any, most: int) -> str:
    """A palindrome by some reading: exact, ignoring case, ignoring punctuation; often with one flaw."""
    letters = "abcABC019" + draw(st.sampled_from(["", "", " ", " .", "_-", "\u00e9\u03a3"]))
    half = draw(st.lists(st.sampled_from(letters), min_size=1, max_size=max(1, most // 2)))
    text = half + (half[-2::-1] if draw(st.booleans()) else half[::-1])
    reading = draw(st.integers(0, 9))
    if reading < 4:
        text = [c.swapcase() if draw(st.integers(0, 2)) == 0 else c for c in text]
    if 2 <= reading < 7:
        text = _sprinkled(draw, text, " ,.!-_'\n:;²\u0301")
    if draw(st.integers(0, 4)) < 2:
        text = _flawed(draw, text, "abAB01 _")
    return "".join(text)[:most]


def _flawed(draw: Any, text: list[str], letters: str) -> list[str]:
    """One character inserted, dropped, replaced or swapped with another."""
    at, kind = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
    head, tail = text[:at], text[at:]
    if kind == 0 or not tail:
        return [*head, draw(st.sampled_from(letters)), *tail]
    if kind == 1:
        return [*head, *tail[1:]]
    if kind == 2:
        return [*head, draw(st.sampled_from(letters)), *tail[1:]]
    return [*tail[:1], *head[1:], *head[:1], *tail[1:]]


def _sprinkled(draw: Any, text: list[str], letters: str) -> list[str]:
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        text = [*text[:at], draw(st.sampled_from(letters)), *text[at:]]
    return text


_SHAPES: dict[str, Any] = {"text": words, "brackets": brackets, "palindrome": palindromes}
