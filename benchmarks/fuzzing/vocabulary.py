"""What programs are made of: the grammar of expressions, statements that change something, signatures.

`<int>` is an expression of that kind, `<int w>` one in which the number `w` is bound too (`<str w>`: the text
`w`), and `<a ints>` the name of a list in scope: an alternative that needs one is left out where there is
none.
"""

from __future__ import annotations

from pathlib import Path

GRAMMAR_TEXT = (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8")
# Where an expression must end: a constant, or the nearest thing to the parameters.
LEAVES = {
    "int": [
        "0",
        "1",
        "1",
        "2",
        "3",
        "-1",
        "10",
        "len(<a ints>)",
        "len(<a str>)",
        "<a ints>[0]",
        "len(<a dict>)",
    ],
    "bool": [
        "True",
        "False",
        "<a int> > 2",
        "<a str> == 'a'",
        "1 in <a ints>",
        "len(<a ints>) > 1",
        "<a int> == 0",
    ],
    "test": ["True", "0", "''", "<a int> > 1", "<a int>", "<a str>", "<a ints>", "not <a ints>", "<a dict>"],
    "str": ["''", "'a'", "'ab'", "'b'", "'0'", "' '", "str(<a int>)", "<a strs>[0]"],
    "ints": ["[]", "[1]", "[3, 1, 2]", "[0, 0]", "[<a int>, 2]", "sorted(<a set>)", "[len(<a str>)]"],
    "strs": ["[]", "['a']", "['b', 'a']", "list(<a str>)", "list(<a dict>)"],
    "dict": ["{}", "{'a': 1}", "dict(b=2)", "{<a str>: 1}"],
    "set": ["set()", "{1, 2}", "set(<a ints>)"],
    "iter": ["iter([3, 1])", "(w for w in [1, 2])", "iter(<a ints>)", "(w for w in <a ints>)"],
    "raising": ["10 // 0", "[][0]", "10 // <a int>", "<a ints>[1]", "int(<a str>)", "<a dict>['a']"],
}
# A loop's target, what it goes over, and the kinds of the names it binds.
ITERATIONS = (
    ("i", "range(min(5, abs(<int>)))", "int"),
    ("i", "range(min(5, abs(<int>)), -1, -1)", "int"),
    ("j", "range(1, min(5, abs(<int>)), 2)", "int"),
    ("i", "<ints>", "int"),
    ("j", "list(<ints>)", "int"),
    ("i, c", "enumerate(<str>)", "int str"),
    ("i, k", "zip(<ints>, <ints>)", "int int"),
    ("c", "<str>", "str"),
    ("i", "sorted(<ints>)", "int"),
    ("j", "reversed(<ints>)", "int"),
    ("c", "<a dict>", "str"),
    ("c, k", "<a dict>.items()", "str int"),
    ("k", "<a dict>.values()", "int"),
    ("c", "list(<a dict>.keys())", "str"),
    ("i", "range(len(<a ints>))", "int"),
    ("i, k", "enumerate(<a ints>)", "int int"),
    ("j", "<a iter>", "int"),
    ("k", "<a set>", "int"),
)
SIGNATURES = {
    "n: int": {"n": "int"},
    "n: int >= 0 <= 12": {"n": "int"},
    "a: int; b: int": {"a": "int", "b": "int"},
    "xs: list[int]": {"xs": "ints"},
    "xs: list[int]; n: int": {"xs": "ints", "n": "int"},
    "xs: list[int]; ys: list[int]": {"xs": "ints", "ys": "ints"},
    "s: str": {"s": "str"},
    "s: str; n: int >= 0 <= 9": {"s": "str", "n": "int"},
    "s: str; t: str": {"s": "str", "t": "str"},
    "ws: list[str]": {"ws": "strs"},
    "d: dict[str,int]": {"d": "dict"},
    "d: dict[str,int]; s: str": {"d": "dict", "s": "str"},
    "b: bool; n: int": {"b": "bool", "n": "int"},
}
EXCEPTIONS = ("ValueError", "KeyError", "IndexError", "ZeroDivisionError", "TypeError", "StopIteration")
MUTATIONS = """
<a ints>.append(<int>)
<a ints>.insert(0, <int>)
<a ints>.extend(<ints>)
<a ints>.sort()
<a ints>.sort(reverse=True)
<a ints>.reverse()
<a ints>.pop()
<a ints>.remove(<int>)
<a ints>.clear()
<a ints>[0] = <int>
<a ints>[-1] += <int>
<a ints>[1:2] = [<int>]
<a ints>[:] = <ints>
del <a ints>[0]
<a dict>[<str>] = <int>
<a dict>[<str>] += <int>
<a dict>[<str>] = <a dict>.get(<str>, 0) + 1
<a dict>.setdefault(<str>, <int>)
<a dict>.pop(<str>, None)
<a dict>.update(<dict>)
del <a dict>[<str>]
<a set>.add(<int>)
<a set>.discard(<int>)
<a set>.remove(<int>)
<a strs>.append(<str>)
<a strs>.sort()
<a strs>.pop()
""".strip().splitlines()
# Changes that a mutation adds to a real program, to whatever names it has.
EFFECTS = """
<x> = <y>
<x>.append(1)
<x> += 1
<x> += [1]
<x>.pop()
<x> = None
<x>.sort()
<x>, <y> = <y>, <x>
del <x>[0]
<x> = list(<x>)
<x> = <x>
<x> = not <y>
""".strip().splitlines()
# What stands before the function: `t` leaves a trace, raises or counts.
PRELUDES = (
    "LOG = []\ndef t(v):\n    LOG.append(v)\n    return v\n",
    "COUNT = [0]\ndef t(v):\n    COUNT[0] += 1\n    return v + COUNT[0] if type(v) is int else v\n",
    "def t(v):\n    if v == 3:\n        raise ValueError('three')\n    return v\n",
    "def t(v, seen=[]):\n    seen.append(v)\n    return v if len(seen) % 5 else seen[0]\n",
    "def t(v):\n    return v\n",
    "class Box:\n    def __init__(self, v):\n        self._v = v\n        self._n = 0\n    def get(self):\n"
    "        self._n += 1\n        return self._v\n    def count(self):\n        return self._n\n"
    "def t(v):\n    box = Box(v)\n    return box.get()\n",
    "def g(k):\n    for i in range(k):\n        yield i\n    return\ndef t(v):\n    return v\n",
    "K = 3\ndef t(v):\n    global K\n    K = (K + 1) % 7\n    return v\n",
)
PLAIN_PRELUDES = (
    "def t(v):\n    return v\n",
    "def t(v):\n    if v == 3:\n        raise ValueError('three')\n    return v\n",
    "def t(v):\n    if not v:\n        return v\n    return v\n",
    "K = 3\ndef t(v):\n    if K > 2:\n        return v\n    return None\n",
    "def double(v):\n    return v + v\ndef t(v):\n    return double(v)\n",
)
# Helpers that put what they are given into a container of their own, and change it there.
HOLDING = (
    "def t(v):\n    d = []\n    d.append(v)\n    d[0] += d[0]\n    return v\n",
    "def t(v):\n    d = {0: v}\n    d[0] *= 2\n    return v\n",
    "def t(v):\n    d = [v, v]\n    d[1] = d[0]\n    for i in range(2):\n        d[i] *= 2\n    return v\n",
    "def t(v):\n    d = {}\n    d['a'] = v\n    e = [d['a']]\n    e.append(v)\n    return v\n",
)
# Classes with methods that operators, lookups and stores run, and a helper that makes an object.
MADE = "def t(v):\n    box = Box(v)\n    return box.get()\n"
SPECIAL = tuple(
    f"class Box:\n    def __init__(self, v):\n        self.v = v\n    def {method}\n"
    f"    def get(self):\n        return self.v\n{MADE}"
    for method in (
        "__getattr__(self, name):\n        return 3",
        "__setattr__(self, name, value):\n        self.__dict__[name] = 7",
        "__new__(cls, v):\n        made = object.__new__(cls)\n        made.w = v\n        return made",
        "__len__(self):\n        return 0",
        "__eq__(self, other):\n        return True",
        "__del__(self):\n        self.v = 0",
    )
)
# What a function or the module imports; a use of the module follows, which the import need not allow.
IMPORTS = (
    ("import math", "math.floor(<int>)"),
    ("import math as m", "m.isqrt(abs(<int>))"),
    ("import math as m", "math.isqrt(abs(<int>))"),
    ("from math import isqrt", "isqrt(abs(<int>))"),
    ("from math import isqrt", "math.isqrt(abs(<int>))"),
    ("from collections import deque", "len(deque(<ints>))"),
    ("from collections import deque", "len(collections.deque(<ints>))"),
    ("from collections import Mapping", "<int>"),
    ("from typing import Nothing", "<int>"),
    ("from typing import List", "<int>"),
)
# What stands behind the function and runs while the module loads: it may put another in its place.
SWAP = "def swap(k=0):\n    global <g>\n    <g> = <new>\n    return k\n"
LOADED = (
    SWAP + "swap()\n",
    SWAP + "for k in range(2):\n    swap(k)\n",
    SWAP + "unused = swap()\n",
    SWAP + "unused = [swap(k) for k in range(2)]\n",
    SWAP + "def unused(x=swap()):\n    return x\n",
    SWAP + "class Unused:\n    swap()\n",
    SWAP + "if 2 > 1:\n    swap()\n",
    SWAP + "print(swap())\n",
    "def twice(k):\n    return k * 2\nfor k in range(3):\n    print(twice(k))\n",
    "DONE = [3, 1]\nprint(sorted(DONE))\n",
    "class Point:\n    def __init__(self, x):\n        self.x = x\nprint(Point(2).x)\n",
)
