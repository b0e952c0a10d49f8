"""A minute of the fuzzer on fixed seeds, and every program on which it ever found a difference."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.fuzz_rules import fuzz, make
from benchmarks.fuzzing import judge as judging
from benchmarks.fuzzing.grammar import program
from benchmarks.fuzzing.judge import judge
from benchmarks.fuzzing.shrink import shrink
from benchmarks.fuzzing.subjects import DIFFERENCES, from_facts, from_record, read_programs, seeds

from skyt.repair.rules import NormalForm, normal_form
from skyt.sandbox import SandboxPool, capability
from skyt.text.parsing import why_not_compiled

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")
PROGRAMS = 1000  # under a minute of one core
SEED = 2026


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1) as made:
        yield made


@pytest.mark.timeout(900)
def test_programs_made_up_behave_as_their_normal_forms(pool: SandboxPool) -> None:
    given = seeds(recorded=False)
    tallies = list(fuzz(iter(range(PROGRAMS)), SEED, given, pool, until=time.monotonic() + 150))
    found = [finding for tally in tallies for finding in tally.findings]
    assert not found, "\n\n".join(f"{f.difference}\n{f.rules}\n{f.subject.code}" for f in found)
    assert sum(tally.changed for tally in tallies) > 20, "the rules had next to nothing to do"


def test_programs_that_once_differed_from_their_normal_forms_no_longer_do(pool: SandboxPool) -> None:
    judged = judge(read_programs(DIFFERENCES), pool)
    assert len(judged) > 20
    bad = [f"{j.subject.title}: {j.difference}\n{j.subject.code}" for j in judged if j.difference]
    assert not bad, "\n\n".join(bad)


def test_a_number_and_a_seed_give_one_program() -> None:
    given = seeds(recorded=False)
    made = [make(number, 7, given) for number in range(60)]
    assert made == [make(number, 7, given) for number in range(60)]
    assert len({subject.code for subject in made}) > 55
    assert [make(number, 8, given) for number in range(60)] != made


def test_programs_from_the_grammar_are_python() -> None:
    assert not any(why_not_compiled(program(random.Random(seed)).code) for seed in range(200))


def test_a_record_of_a_program_is_that_program() -> None:
    subject = from_facts("t", "xs: list[int]; n: int >= 0 <= 9", "def f(xs, n):\n    return xs[n]")
    assert from_record(subject.record()) == subject
    real = replace(seeds(recorded=False)[0], facts="")
    assert from_record(real.record()).contract.domain == real.contract.domain


WRONG = {
    "a value": ("return n + 1", "return n + 2"),
    "a type": ("return n > 3", "return int(n > 3)"),
    "an exception": ("return [1][n]", "return {0: 1}[n]"),
    "an argument": ("xs.append(n)\n    return 1", "return 1"),
    "an argument, and then an exception": ("xs.append(n)\n    return 1 // 0", "return 1 // 0"),
    "an end where there was none": ("return f(xs, n)", "return 1"),
    "what an iterator gives": ("return (x for x in xs)", "return iter([])"),
}


def test_how_far_an_endless_recursion_comes_is_not_compared(pool: SandboxPool) -> None:
    """Without the call of `observe` there is room for more of them."""
    code = "def observe(v):\n    pass\n\ndef f(xs):\n    x = observe(1)\n    xs += [1]\n    return f(xs)"
    judged = judge([from_facts("t", "xs: list[int]", code)], pool)[0]
    assert "observe" not in judged.form.text
    assert judged.difference is None


@pytest.mark.parametrize("title", WRONG)
def test_the_judge_sees(title: str, pool: SandboxPool, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = (f"def f(xs, n):\n    {body}" for body in WRONG[title])
    subject = from_facts("t", "xs: list[int]; n: int", right)
    form = replace(normal_form(right, subject.known), text=wrong, trace=(object(),))
    monkeypatch.setattr(judging, "normal_form", lambda code, facts: form)
    assert judge([subject], pool)[0].difference is not None
    same = replace(form, text=right)
    monkeypatch.setattr(judging, "normal_form", lambda code, facts: same)
    assert judge([subject], pool)[0].difference is None


def test_a_wrong_rule_is_found_and_its_program_shrunk(
    pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fuzzer must be able to fail: a rule that takes `<=` for `<` does not survive a batch."""

    def wrong(code: str, facts: Any, rules: Any = None) -> NormalForm:
        form = normal_form(code, facts, rules)
        return replace(form, text=code.replace("<=", "<"), trace=(*form.trace, *[form] * ("<=" in code)))

    monkeypatch.setattr(judging, "normal_form", wrong)
    given = seeds(recorded=False)
    subjects = [make(number, SEED, given) for number in range(300)]
    differing = [j for j in judge([s for s in subjects if "<=" in s.code][:40], pool) if j.difference]
    assert differing
    judged = min(differing, key=lambda j: len(j.subject.code))
    extra = [judged.difference.call] if judged.difference else []
    small = shrink(
        judged.subject.code,
        lambda code: judge([replace(judged.subject, code=code)], pool, extra)[0].difference is not None,
        tries=150,
    )
    assert "<=" in small and len(small.splitlines()) <= min(8, len(judged.subject.code.splitlines()))
