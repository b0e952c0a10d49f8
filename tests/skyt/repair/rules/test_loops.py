"""Templates with loops: what the engine finds out about rounds, jumps, and what enters or leaves a loop."""

from __future__ import annotations

import ast

from benchmarks.red_team import facts_of

from skyt.repair.rules import normal_form
from skyt.repair.rules.patterns.duty import Duties
from skyt.repair.rules.patterns.rewriting import Rewriting
from skyt.repair.rules.patterns.template import Found, Template, build, match
from skyt.repair.rules.patterns.when import Condition, always, ends_function, ends_round, leaving, own

NOTHING = Duties()


def duties_of(before: str, after: str, *needs: Condition, jumps: tuple[tuple[str, str], ...] = ()) -> Duties:
    return Rewriting(before, after, needs)._shown(frozenset(jumps))


def test_loops_with_the_same_rounds_are_the_same() -> None:
    before, after = "for x in e:\n if c: continue\n body", "for x in e:\n if not c: body"
    assert duties_of(before, after) == NOTHING


def test_a_round_in_another_order_is_noticed() -> None:
    made = duties_of("for x in e:\n one\n two", "for x in e:\n two\n one")
    assert ("one", "two") in made.apart


def test_what_goes_out_of_a_loop_must_hold_still_in_it() -> None:
    made = duties_of("i = a\nwhile i < n:\n body\n i = i + k", "for i in range(a, n, k): body", own("i"))
    assert made.steady == {"n", "k"} and {"body", "i ="} <= made.rounds


def test_leaving_at_the_start_of_a_round_is_the_loops_condition() -> None:
    before, after = "while t:\n if c: break\n rest", "while not c: rest"
    made = duties_of(before, after, always(True, "t"))
    assert made.total == {"t"} and not made.apart and not made.steady


def test_a_break_in_another_place_is_noticed() -> None:
    before, after = "while t:\n if c: leave\n rest", "while not c: rest\nleave"
    needs = (always(True, "t"), leaving("leave"))
    assert "leave" not in duties_of(before, after, *needs).total
    assert "leave" in duties_of(before, after, *needs, jumps=(("rest", "break"),)).total


def test_a_comprehension_is_a_loop() -> None:
    loop = "for x in e:\n if d:\n  if not c: return False\nreturn True"
    assert duties_of("return all(c for x in e if d)", loop) == NOTHING
    assert duties_of("return all([c for x in e if d])", loop) != NOTHING
    assert duties_of("return any(c for x in e if d)", loop) != NOTHING


def test_a_generator_is_made_between_the_rounds_and_a_list_before_them() -> None:
    loop = "for x in e:\n if c:\n  y = f\n  body"
    assert duties_of("for y in (f for x in e if c): body", loop) == NOTHING
    assert duties_of("for y in [f for x in e if c]: body", loop) != NOTHING


def test_the_end_of_a_block_is_a_jump() -> None:
    assert duties_of("if c: continue\nrest", "if not c: rest", ends_round) == NOTHING
    assert duties_of("if c: return\nrest", "if not c: rest", ends_round) != NOTHING
    assert duties_of("if c: return\nrest", "if not c: rest", ends_function) == NOTHING


def test_a_name_with_a_star_stands_for_any_number_of_statements() -> None:
    template = Template.read("i = 0\n*between\nfor x in e:\n body\n i = i + 1\n *rest").body
    program = ast.parse("n = 0\nfor y in ys:\n    print(y)\n    n = n + 1").body
    found: Found = {}
    assert match(template, program, found)
    assert found["between"] == found["rest"] == []
    assert [ast.unparse(s) for s in build(Template.read("*between\nbody").body, found)] == ["print(y)"]


def test_the_condition_of_a_comprehension_stands_for_all_or_none() -> None:
    template = Template.read("sum(f for x in e if c)").expression
    for text, condition in (("", "True"), ("if a", "a"), ("if a if b", "a and b")):
        found: Found = {}
        assert match(template, ast.parse(f"sum(y for y in ys {text})", mode="eval").body, found)
        assert ast.unparse(found["c"]) == condition  # type: ignore[arg-type]


def test_a_loop_variable_that_is_also_what_the_loop_goes_through_is_left_alone() -> None:
    for program in (
        "def f(xs):\n    for xs, x in enumerate(xs):\n        print(x)\n    return xs",
        "def f(i, n):\n    while i + 0.5 < n:\n        print(i)\n        i = i + 1\n    return n",
    ):
        facts = facts_of("xs: list[int]" if "xs" in program else "i: int; n: int")
        rules = {"enumerate-to-index", "counting-loop"}
        assert not rules & set(normal_form(program, facts).rules)
