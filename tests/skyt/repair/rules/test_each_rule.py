"""Every rule, by the same three questions: does it fire, does it hold back without its facts, does it keep
behaviour."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyt.repair.rules import RULES, Facts, Parameter, Rule, normal_form
from skyt.repair.rules.analysis.values.types import parse_type

from .examples import EXAMPLES, Example

BY_NAME = {rule.name: rule for rule in RULES}
IDS = [e.rule for e in EXAMPLES]


def facts_of(text: str) -> Facts:
    """`n: int >= 0 <= 9; s: str` as facts about the function f."""
    parameters = []
    for part in text.split(";"):
        name, _, spec = (x.strip() for x in part.partition(":"))
        words = spec.split()
        bounds = dict(zip(words[1::2], map(int, words[2::2]), strict=True))
        parameters.append(Parameter(name, parse_type(words[0]), bounds.get(">="), bounds.get("<=")))
    return Facts(name="f", parameters=tuple(parameters), public=frozenset({"f"}), out_of_domain_free=True)


def alone(rule: str) -> list[Rule]:
    return [BY_NAME[rule]]


def values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    integers = st.integers(
        parameter.min if parameter.min is not None else -30,
        parameter.max if parameter.max is not None else 60,
    )
    text = st.text(st.sampled_from("abAB -_1ßΣσς\u0130\n"), max_size=8)
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        "int": integers,
        "str": text,
        "float": st.floats(-9, 9) | st.just(float("nan")),
        ("list", "int"): st.lists(st.integers(-5, 5), max_size=8),
        ("list", "str"): st.lists(text, max_size=4),
    }
    return kinds.get(parameter.type, integers)


def outcome(code: str, arguments: list[Any]) -> tuple[Any, ...]:
    """Result or exception, and what became of the arguments. The programs are ours: no sandbox is needed."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(code, "program", "exec", dont_inherit=True), names)  # noqa: S102
    arguments = copy.deepcopy(arguments)
    function = names.get("f") or names["compute"]
    try:
        result = function(*arguments)
    except Exception as error:
        return "raises", type(error).__name__, arguments
    return "returns", type(result).__name__, repr(result), repr(arguments)


def test_every_rule_has_an_example() -> None:
    assert sorted(IDS) == sorted(BY_NAME)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_rule_fires_where_its_facts_hold(example: Example) -> None:
    form = normal_form(example.fires, facts_of(example.facts), alone(example.rule))
    assert form.failure == ""
    assert example.rule in form.rules


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_rule_does_not_fire_without_its_facts(example: Example) -> None:
    form = normal_form(example.keeps, facts_of(example.other_facts), alone(example.rule))
    assert form.failure == ""
    assert example.rule not in form.rules


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_rule_keeps_behaviour(example: Example) -> None:
    facts = facts_of(example.facts)
    rewritten = normal_form(example.fires, facts, alone(example.rule)).text
    whole = normal_form(example.fires, facts).text
    calls = st.tuples(*(values_of(p) for p in facts.parameters))

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(calls)
    def same(arguments: tuple[Any, ...]) -> None:
        expected = outcome(example.fires, list(arguments))
        assert outcome(rewritten, list(arguments)) == expected
        assert outcome(whole, list(arguments)) == expected

    same()


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_the_normal_form_of_what_a_rule_must_leave_alone_keeps_behaviour(example: Example) -> None:
    facts = facts_of(example.other_facts)
    if any(p.type == "any" for p in facts.parameters):
        pytest.skip("the domain says nothing of the type")
    whole = normal_form(example.keeps, facts).text

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(st.tuples(*(values_of(p) for p in facts.parameters)))
    def same(arguments: tuple[Any, ...]) -> None:
        if "def f(" in example.keeps:
            assert outcome(whole, list(arguments)) == outcome(example.keeps, list(arguments))

    same()
