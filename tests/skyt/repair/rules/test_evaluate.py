"""The interpreter behind guards: Python exactly, or not at all."""

import ast

import pytest

from skyt.repair.rules.analysis.evaluate import GiveUpError, Returned, returned
from skyt.text.parsing import parse


def body(code: str) -> list[ast.stmt]:
    return parse(code).body[0].body  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def f(xs):\n return [0] * len(xs)", Returned([], new=True)),
        ("def f(xs):\n d = {}\n for x in xs:\n  d[x] = 1\n return d", Returned({}, new=True)),
        ("def f(xs):\n return xs", Returned([], new=False)),
        ("def f(xs):\n return '-' * 3", Returned("---", new=False)),
    ],
)
def test_a_result_says_whether_anyone_else_can_hold_it(code: str, result: Returned) -> None:
    assert returned(body(code), {"xs": []}) == result


@pytest.mark.parametrize("value", ["[0] * 10 ** 9", "[[]] * 2", "'ab' * 5000"])
def test_what_is_long_or_shared_inside_is_given_up(value: str) -> None:
    with pytest.raises(GiveUpError):
        returned(body(f"def f():\n n = 1000000000\n return {value.replace('10 ** 9', 'n')}"), {})
