"""From a text that a model went on writing, the entry point and what it needs remain."""

from __future__ import annotations

import ast

import pytest

from skyt.text.trim import trimmed

PROMPT = "from typing import List\nimport math\n\ndef helper(x):\n    return x + LIMIT\n\nLIMIT = 3\n\n"
BODY = "def f(xs: List[int]) -> int:\n    return helper(len(xs))\n"


def _same(code: str, wanted: str) -> bool:
    return ast.dump(ast.parse(code)) == ast.dump(ast.parse(wanted))


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "\nassert f([]) == 3\nprint(f([1]))\n",
        "\ndef test_f():\n    assert f([]) ==",
        "\nif __name__ == '__main__':\n    f([1])\n",
        '\n"""\nNow the tests',
        "\nimport pytest\nfrom .utils import *\n\n@pytest.fixture()\n",
        "\ndef f(xs):\n    return 0\n",
        "\nclass Solution:\n    def g(self",
        "\nfrom __future__ import print_function\n",
    ],
)
def test_what_follows_the_entry_point_goes(rest: str) -> None:
    wanted = PROMPT.replace("import math\n", "") + BODY
    assert _same(trimmed(PROMPT + BODY + rest, "f"), wanted)


def test_helpers_after_the_entry_point_stay() -> None:
    code = "def f(x):\n    return g(x)\n\ndef g(x):\n    return math.sqrt(x)\n\nimport math\nx = 3\n"
    assert _same(trimmed(code, "f"), code.replace("x = 3\n", ""))


@pytest.mark.parametrize("text", ["", "no code at all", "def g():\n    return 1\n", "def f(:\n", "\x00"])
def test_a_text_without_the_entry_point_stays_as_it_is(text: str) -> None:
    assert trimmed(text, "f") == text


def test_a_long_text_that_never_parses_is_given_up_quickly() -> None:
    text = "def f():\n    return (\n" * 3000
    assert isinstance(trimmed(text, "f"), str)
