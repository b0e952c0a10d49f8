"""Programs written against the rules: none behaves otherwise than its normal form."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.red_team import Program, differences, facts_of, read_programs

from skyt.repair.rules import normal_form
from skyt.sandbox import SandboxPool

OWN = Path(__file__).with_name("hostile.jsonl")


def different(path: Path) -> list[str]:
    with SandboxPool(workers=2) as pool:
        found = [d for _, _, d in differences(read_programs(path), pool, calls=40) if d is not None]
    return [f"{d.program.title}: {d.call}: {d.before}, normal form {d.after}" for d in found]


def test_our_own_programs_behave_as_their_normal_forms() -> None:
    assert different(OWN) == []


def test_the_shared_programs_behave_as_their_normal_forms(shared_data: Path) -> None:
    paths = sorted((shared_data / "red_team").glob("programs*.jsonl"))
    if not paths:
        pytest.skip("no shared programs are here")
    assert [d for path in paths for d in different(path)] == []


def test_most_of_our_own_programs_are_inside_the_language() -> None:
    """Else they would say nothing about the rules."""
    forms = [normal_form(p.code, facts_of(p.facts)) for p in read_programs(OWN)]
    assert sum(f.complete for f in forms) >= 0.85 * len(forms)


APART = {
    "a generator that is used twice": (
        "n: int >= 0 <= 50",
        "def f(n):\n g = (i for i in range(n))\n a = sum(g)\n return a + sum(g)",
        "def f(n):\n if n == 40:\n  return 1560\n g = (i for i in range(n))\n a = sum(g)\n return a + sum(g)",
    ),
    "a value that moves into a try": (
        "xs: list[int]; n: int",
        "def f(xs, n):\n for x in xs:\n  try:\n   if x > 2:\n    break\n   n -= 1\n"
        "  except ZeroDivisionError:\n   n = 5\n return 100 // n",
        "def f(xs, n):\n for x in xs:\n  try:\n   if x > 2:\n    return 100 // n\n   n -= 1\n"
        "  except ZeroDivisionError:\n   n = 5\n return 100 // n",
    ),
    "False and the empty string": (
        "s: str",
        "def f(s):\n if not s:\n  return False\n return s[0] == 'a'",
        "def f(s):\n return s and s[0] == 'a'",
    ),
}


@pytest.mark.parametrize("title", APART)
def test_programs_that_were_once_taken_for_the_same_have_different_forms(title: str) -> None:
    facts, one, other = APART[title]
    assert normal_form(one, facts_of(facts)).text != normal_form(other, facts_of(facts)).text


def test_a_program_reads_as_data() -> None:
    assert all(isinstance(p, Program) and "def f(" in p.code for p in read_programs(OWN))
