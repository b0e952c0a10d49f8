"""Whatever a model writes, the rules answer soon: with a normal form, or with the text as it is and a
reason."""

from __future__ import annotations

import time

import pytest

from skyt.contracts.contract import load_contract
from skyt.repair.rules import Facts, normal_form
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import Assessor, prepare
from skyt.sandbox import capability

CONTRACT = load_contract("factorial")
FACTS = Facts.from_contract(CONTRACT)
SECONDS = 20  # of CPU; the slowest takes four on an ordinary machine
NAME = CONTRACT.entry_point.name


def loops(depth: int) -> str:
    lines = [f"{'  ' * (i + 1)}for x{i} in range(n):" for i in range(depth)]
    return "\n".join([f"def {NAME}(n):", *lines, "  " * (depth + 1) + "pass"])


def lines_of(count: int, line: str) -> str:
    lines = [f"    {line.format(i=i)}" for i in range(count)]
    return "\n".join([f"def {NAME}(n):", "    x = n", *lines, "    return x"])


REFUSED = {
    "not Python": (f"def {NAME}(n) return n", "not Python"),
    "prose": ("I am sorry, I cannot do that.", "not Python"),
    "ten thousand lines": (lines_of(10_000, "x{i} = n"), "longer than 100,000 characters"),
    "ten thousand short lines": ("x=1\n" * 10_000, "nodes; the rules take at most"),
    "two hundred nested loops": (loops(200), "not Python: too many levels of indentation"),
    "thirty nested loops": (loops(30), "not Python: too many statically nested blocks"),
    "a string of a megabyte": (
        f"def {NAME}(n):\n    return '{'a' * 2**20}'",
        "longer than 100,000 characters",
    ),
    "null bytes": (f"def {NAME}(n):\n    return n\0", "null bytes"),
    "lone surrogates": (f"def {NAME}(n):\n    return '\ud800'", "not Python"),
    "ten thousand parentheses": (f"def {NAME}(n):\n    return {'(' * 10_000}n{')' * 10_000}", "not Python"),
    "ten thousand signs": (f"def {NAME}(n):\n    return {'-' * 10_000}n", "nested deeper than 100 levels"),
    "ten thousand calls": (f"{NAME}{'()' * 10_000}", "nested deeper than 100 levels"),
    "a thousand summands": (f"def {NAME}(n):\n    return {' + '.join(['n'] * 1000)}", "nested deeper"),
    "a number of five thousand digits": (f"def {NAME}(n):\n    return {'9' * 5000}", "not Python"),
    "a return outside": ("return 1", "not Python"),
}
SLOW = {
    "many steps on one name": lines_of(150, "x = x + {i}"),
    "many names": lines_of(120, "x{i} = n + {i}"),
    "many loops": lines_of(80, "for i in range(n): x += {i}"),
    "many branches": lines_of(120, "if n == {i}: return {i}"),
    "many conditions": f"def {NAME}(n):\n    return {' and '.join(f'n > {i}' for i in range(200))}",
    "many nested branches": "\n".join(
        [f"def {NAME}(n):", *(f"{' ' * (i + 1)}if n > {i}:" for i in range(60)), f"{' ' * 61}return 1"]
    ),
    "a huge power": f"def {NAME}(n):\n    return 9 ** 9 ** 9 ** 9 + n",
    "a huge product": f"def {NAME}(n):\n    return 'a' * 10 ** 12 + str(n)",
    "a string of ninety kilobytes": f"def {NAME}(n):\n    return '{'a' * 90_000}'",
    "nothing": "",
    "a comment": "# nothing",
}


@pytest.mark.parametrize("title", REFUSED)
def test_what_is_refused_keeps_its_text_and_gets_a_reason(title: str) -> None:
    code, reason = REFUSED[title]
    start = time.process_time()
    form = normal_form(code, FACTS)
    assert time.process_time() - start < SECONDS
    assert (form.text, form.trace, form.complete) == (code, (), False)
    assert reason in form.failure


@pytest.mark.parametrize("title", SLOW)
def test_what_could_take_for_ever_ends(title: str) -> None:
    start = time.process_time()
    form = normal_form(SLOW[title], FACTS)
    assert time.process_time() - start < SECONDS
    assert form.complete or (form.failure and form.text)


@pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")
def test_the_record_of_a_sample_says_why_the_rules_gave_up() -> None:
    canon = new_canon(
        CONTRACT,
        prepare(f"def {NAME}(n):\n    return 1 if n < 2 else n * {NAME}(n - 1)").text,
        origin="given",
        model=None,
        temperature=None,
    )
    with Assessor(MeasureConfig()) as bench:
        for title, (code, reason) in REFUSED.items():
            if title == "lone surrogates":
                continue  # normalised text has them escaped, and is Python
            text = prepare(code).text
            done = bench.repair(CONTRACT, text, canon)
            assert (done.evidence, done.text) == ("none", text)
            assert reason in done.reason
