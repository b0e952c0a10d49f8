"""What a model writes costs the trusted side little time and memory, however long and hostile it is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MEASURED = """
import json, resource, sys, time
from skyt.contracts.contract import load_contracts
from skyt.repair.rules import Facts, normal_form
from skyt.runs.judging.assess import prepare
from skyt.text.distance import get_distance
from skyt.text.extract import extract_code
from skyt.text.normalise import normalise
from skyt.text.trim import trimmed

kind, texts = sys.argv[1], json.loads(sys.argv[2])
contract = load_contracts()["gcd"]
canon = "def gcd(a, b):\\n    while b:\\n        a, b = (b, a % b)\\n    return a"
facts, distance = Facts.from_contract(contract), get_distance("levenshtein")
step = {
    "extract": extract_code,
    "trim": lambda text: trimmed(text, "gcd"),
    "normalise": normalise,
    "rules": lambda text: normal_form(text, facts),
    "distance": lambda text: distance(text, canon),
    "distance of two": lambda text: distance(text, text[::-1]),
    "prepare": lambda text: prepare(text, contract),
}[kind]
step(canon)
for megabytes in (1, 6, 32):
    for head, unit in texts:
        text = head + unit * ((megabytes << 20) // len(unit))
        before = resource.getrusage(resource.RUSAGE_SELF)
        step(text)
        after = resource.getrusage(resource.RUSAGE_SELF)
        more = (after.ru_maxrss - before.ru_maxrss) / 1024
        print(json.dumps([megabytes, unit, after.ru_utime - before.ru_utime, more]))
"""
LOOP = "def gcd(a, b):\n    return a\n"
WORST = {
    "extract": [
        ("", "```\n"),
        (LOOP, "it's fast\n"),
        ("", "```python\nx=1\n```\n"),
        ("", "\n"),
        ("", "@a\n"),
        ("```", " "),
    ],
    "trim": [(LOOP, "it's fast\n"), ("", "@a\n")],
    "normalise": [("", "\n"), ("", "# x\n"), ("", "\t")],
    "rules": [("", "x=1\n"), ("", "(")],
    "distance": [("", "ab"), ("", "\U0001f600a")],
    "distance of two": [("", "abcdefgh")],
    "prepare": [("", "```python\ndef f(): pass\n```\n"), (LOOP, "so it's 'one'\n")],
}


@pytest.mark.parametrize("kind", WORST)
def test_the_worst_text_we_know_costs_little(kind: str) -> None:
    command = [sys.executable, "-c", MEASURED, kind, json.dumps(WORST[kind])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        megabytes, unit, seconds, more = json.loads(line)
        assert seconds < 2.0, (megabytes, unit, seconds)
        assert more < 200.0, (megabytes, unit, more)


@pytest.mark.parametrize("kind", ["extract", "normalise", "prepare"])
def test_a_line_of_blanks_before_something_costs_little(kind: str) -> None:
    """At the sizes that are looked into: what looks for blanks at the end must not begin at each of them."""
    sizes = MEASURED.replace("megabytes << 20", "{1: 90_000, 6: 300_000, 32: 950_000}[megabytes]")
    sizes = sizes.replace("for head, unit in texts:", "for head, unit, end in texts:")
    sizes = sizes.replace("// len(unit))", "// len(unit)) + end")
    texts = [("", " ", "x"), ("", "\t", "x"), ("```", " ", "`"), ("x = 1", " ", "\\")]
    command = [sys.executable, "-c", sizes, kind, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        _, unit, seconds, more = json.loads(line)
        assert seconds < 2.0, (unit, seconds)
        assert more < 200.0, (unit, more)


@pytest.mark.parametrize("kind", ["extract", "trim", "prepare"])
def test_code_with_much_after_it_costs_little(kind: str) -> None:
    """Just below the size that is looked into at all: a syntax error on the last line that is left."""
    command = [sys.executable, "-c", MEASURED.replace("megabytes << 20", "90_000 + megabytes * 1000"), kind]
    texts = [(LOOP, "it's fast\n"), (LOOP, "@a\n"), (LOOP, "x = (\n"), (LOOP, "'''\n"), (LOOP, "if x:\n")]
    done = subprocess.run([*command, json.dumps(texts)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        _, unit, seconds, more = json.loads(line)
        assert seconds < 2.0, (unit, seconds)
        assert more < 200.0, (unit, more)
