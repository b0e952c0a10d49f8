"""Every rule, by the examples that it carries: it fires, it holds back, and it keeps behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.red_team import Program, differences, facts_of
from benchmarks.rules_page import written

from skyt.repair.rules import RULES, NormalForm, Rule, normal_form
from skyt.sandbox import SandboxPool

CLEANING = [rule for rule in RULES if rule.shape == "module" and "0" in rule.phases]
BY_NAME = {rule.name: rule for rule in RULES}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2) as made:
        yield made


def alone(rule: Rule) -> list[Rule]:
    """The rule, with what brings a program into the language of the rules."""
    return [*CLEANING, *([rule] if rule not in CLEANING else [])]


def by_one_rule(program: Program) -> NormalForm:
    return normal_form(program.code, facts_of(program.facts), alone(BY_NAME[program.title]))


def examples() -> list[Program]:
    pairs = [(rule, e) for rule in RULES for e in (rule.fires, rule.keeps)]
    return [Program(rule.name, facts, code) for rule, (facts, code) in pairs if "def f(" in code]


def test_no_two_rules_share_a_name() -> None:
    assert len(BY_NAME) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_fires_where_it_says(rule: Rule) -> None:
    facts, code = rule.fires
    form = normal_form(code, facts_of(facts), alone(rule))
    assert form.failure == ""
    assert rule.name in form.rules


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_holds_back_where_it_says(rule: Rule) -> None:
    facts, code = rule.keeps
    assert rule.name not in normal_form(code, facts_of(facts), alone(rule)).rules


def test_a_rule_alone_keeps_behaviour(pool: SandboxPool) -> None:
    found = differences(examples(), pool, calls=40, form_of=by_one_rule)
    assert [d for _, _, d in found if d is not None] == []


def test_all_rules_together_keep_the_behaviour_of_the_examples(pool: SandboxPool) -> None:
    assert [d for _, _, d in differences(examples(), pool, calls=40) if d is not None] == []


def test_the_page_has_the_rules_as_they_are() -> None:
    page = Path(__file__).parents[4] / "docs" / "rules.md"
    text = page.read_text(encoding="utf-8")
    assert written(text) == text, "python -m benchmarks.rules_page docs/rules.md"
