"""Templates: what a rule moves, drops or repeats is found from its text, and asked of every match."""

from __future__ import annotations

import ast

import pytest
from benchmarks.red_team import facts_of

from skyt.repair.rules import normal_form
from skyt.repair.rules.patterns.duty import Duties
from skyt.repair.rules.patterns.rewriting import Made, Rewriting, folded
from skyt.repair.rules.patterns.template import Template, build, match
from skyt.repair.rules.patterns.when import leaving


def duties_of(before: str, after: str, *names: str) -> tuple[set[str], set[str], set[tuple[str, ...]]]:
    made = Rewriting(before, after, [leaving(n) for n in names]).duties
    return set(made.total), set(made.pure), {tuple(sorted(pair)) for pair in made.apart}


def test_what_changes_places_must_commute() -> None:
    assert duties_of("a + b", "b + a") == (set(), set(), {("a", "b")})


def test_what_is_dropped_must_not_be_noticed() -> None:
    assert duties_of("a * b", "b") == ({"a"}, set(), set())


def test_what_is_repeated_must_give_the_same_again() -> None:
    assert duties_of("f(a)", "f(a, a)")[1] == {"a"}


def test_what_is_evaluated_on_one_way_only_must_not_be_noticed_on_the_other() -> None:
    assert "b" in duties_of("a + b", "a and b")[0]


def test_a_rule_that_keeps_the_order_has_nothing_to_show() -> None:
    nested = "if c:\n    if d:\n        body"
    assert duties_of(nested, "if c and d: body") == (set(), set(), set())


def test_swapping_two_conditions_is_noticed() -> None:
    total, _, apart = duties_of("if c:\n    if d:\n        body", "if d and c: body")
    assert total == {"c", "d"} and ("c", "d") in apart


def test_code_behind_a_block_that_leaves_does_not_run() -> None:
    before, after = "if c:\n    body\nelse:\n    other", "if c:\n    body\nother"
    assert duties_of(before, after, "body") == (set(), set(), set())
    assert "other" in duties_of(before, after)[0]


def test_a_name_that_stands_for_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="stands for nothing"):
        Rewriting("a + b", "a + c", [])


def test_a_name_stands_for_the_same_thing_everywhere() -> None:
    template = Template.read("x[a:len(x)]")
    tree = ast.parse("xs[1:len(xs)]\nxs[1:len(ys)]").body
    assert match(template.expression, tree[0].value, {})  # type: ignore[attr-defined]
    assert not match(template.expression, tree[1].value, {})  # type: ignore[attr-defined]


def test_what_was_matched_is_built() -> None:
    found: dict[str, ast.expr | list[ast.stmt]] = {}
    body = ast.parse("if n > 3:\n    k = 1\n    return k").body
    assert match(Template.read("if c: body").body, body, found)
    made = build(Template.read("if not c: body").body, found)
    assert ast.unparse(made[0]) == "if not n > 3:\n    k = 1\n    return k"


def test_a_computed_piece_is_new_and_what_it_was_made_of_is_dropped() -> None:
    made = Rewriting("a <= b", "a < m", [], {"m": folded("b + 1")}).duties
    assert made.total == {"b", "m"}


def test_a_computed_piece_that_is_like_a_template_evaluates_what_that_does() -> None:
    before, after = "if c: body\nelse: other", "if d: other\nelse: body"
    made = {"d": Made("the opposite of `c`", lambda found, where: None, like="not c")}
    assert Rewriting(before, after, [], made).duties == Duties()
    assert "body" in Rewriting(before, "if d: body\nelse: other", [], made).duties.total


def test_a_run_of_operands_is_matched_among_others() -> None:
    facts = facts_of("n: int; m: int; k: int")
    code = "def f(n, m, k):\n    return n < 3 and True and m < k"
    assert normal_form(code, facts).text == "def f(v0, v1, v2):\n    return v0 < 3 and v1 < v2"
