"""The language of the rules: what is outside it is left alone, with a reason."""

from __future__ import annotations

import pytest
from benchmarks.red_team import facts_of

from skyt.repair.rules import Facts, normal_form
from skyt.repair.rules.analysis.types import Type, join

OUTSIDE = {
    "try": "def f(n):\n try:\n  return 1 // n\n except ZeroDivisionError:\n  return 0",
    "with": "import contextlib\ndef f(n):\n with contextlib.suppress(ValueError):\n  return n",
    "yield": "def f(n):\n yield n",
    "global": "k = 0\ndef f(n):\n global k\n k += n\n return k",
    "nonlocal": "def f(n):\n k = 0\n def g():\n  nonlocal k\n  k += 1\n g()\n return k",
    "walrus": "def f(n):\n return (m := n) + m",
    "decorator": "import functools\n@functools.cache\ndef f(n):\n return n",
    "generator that is kept": "def f(n):\n g = (i for i in range(n))\n return sum(g) + sum(g)",
    "iterator that is kept": "def f(n):\n g = map(str, range(n))\n return list(g)",
    "view that is kept": "def f(n):\n d = {n: 1}\n v = d.values()\n d[0] = 2\n return list(v)",
    "lambda that is kept": "def f(n):\n g = lambda: n\n n = 3\n return g()",
    "locals": "def f(n):\n x = n\n return sorted(locals())",
    "eval": "def f(n):\n x = n\n return eval('x')",
    "attribute of a function": "def g(n):\n return n\ndef f(n):\n return g.__name__",
    "special method": "class A:\n def __eq__(self, o):\n  return True\ndef f(n):\n return A() == n",
    "base class": "class A:\n pass\nclass B(A):\n pass\ndef f(n):\n B()\n return 1",
    "class attribute": "class A:\n k = []\ndef f(n):\n A.k.append(n)\n return len(A.k)",
    "default that is a list": "def f(n, seen=[]):\n seen.append(n)\n return seen",
    "state of the module": "SEEN = []\ndef f(n):\n SEEN.append(n)\n return len(SEEN)",
    "value that is called": "def f(n):\n return [len, abs][0]([n])",
    "star in a call": "def f(n):\n return max(*[n, 2])",
    "identity of values": "def f(n):\n a = n + 1\n return a is n",
    "local that may be unbound": "def f(n):\n if n > 3:\n  x = 1\n return x",
    "local that a nested function may read too early": (
        "def f(n):\n def g():\n  if n:\n   x = 1\n  return x\n return g()"
    ),
    "import of a module that is not known": "import random\ndef f(n):\n return random.random() * n",
}


@pytest.mark.parametrize("title", OUTSIDE)
def test_what_is_outside_the_language_keeps_its_text_and_says_why(title: str) -> None:
    code = OUTSIDE[title]
    form = normal_form(code, facts_of("n: int"))
    assert not form.complete
    assert form.failure
    assert form.trace == ()
    assert form.text == code


DEEP = "def f(n):\n" + "".join(f"{' ' * (i + 1)}for i{i} in range(2):\n" for i in range(200))
BAD = {
    "not Python": "def f(n:\n return",
    "ten thousand lines": "def f(n):\n" + " n = n + 1\n" * 10_000 + " return n",
    "two hundred loops in each other": DEEP + " " * 201 + "n = n + 1",
    "a literal of a million characters": f"def f(n):\n return {'x' * 1_000_000!r} * n",
    "null bytes": "def f(n):\n return n\x00",
    "nothing": "",
}


@pytest.mark.parametrize("title", BAD)
def test_bad_input_keeps_its_text_and_has_a_reason(title: str) -> None:
    form = normal_form(BAD[title], facts_of("n: int"))
    if not form.complete:
        assert form.failure
        assert form.text == BAD[title]


def test_a_docstring_that_the_program_reads_is_kept() -> None:
    for read in ("g.__doc__", "getattr(g, '__do' + 'c__')", "vars(g)", "inspect.getdoc(g)"):
        code = f"import inspect\ndef g(x):\n 'words'\n return x\ndef f(n):\n return {read}"
        assert normal_form(code, facts_of("n: int")).text == code


CACHE = "class Cache:\n def __init__(self, size):\n  self.size = size\n def get(self):\n  return self.size\n"
UNSEEN = {
    "reading": " def __getattr__(self, name):\n  return 3",
    "storing": " def __setattr__(self, name, value):\n  self.__dict__[name] = value + 1",
    "making": " def __new__(cls, size):\n  return [size]",
    "ending": " def __del__(self):\n  self.size = 0",
}


@pytest.mark.parametrize("when", UNSEEN)
def test_special_methods_that_run_unasked_are_kept(when: str) -> None:
    known = Facts(kind="class", name="Cache", public=frozenset({"Cache", "get"}), out_of_domain_free=True)
    assert normal_form(CACHE, known).complete
    form = normal_form(CACHE + UNSEEN[when], known)
    assert not form.complete and form.text == CACHE + UNSEEN[when]


def test_a_type_that_contains_itself_has_an_end() -> None:
    grown: Type = None
    for _ in range(50):
        grown = join(grown, ("dict", grown, ("list", grown)))
    assert len(str(grown)) < 5000 and join(grown, ("dict", grown, ("list", grown))) == grown
