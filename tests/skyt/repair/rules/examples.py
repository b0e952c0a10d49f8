"""For each rule a program on which it fires, and one that lacks a fact the rule needs, on which it must not.

`Example(rule, facts, fires, facts_without, keeps)`; facts are written like `n: int >= 0; s: str`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    rule: str
    facts: str
    fires: str
    other_facts: str
    keeps: str


def example(rule: str, facts: str, fires: str, keeps: str, other_facts: str | None = None) -> Example:
    return Example(rule, facts, fires, facts if other_facts is None else other_facts, keeps)


EXAMPLES = [
    # cleanup
    example(
        "drop-annotations", "n: int", "def f(n: int) -> int:\n x: int = n\n return x", "def f(n):\n return n"
    ),
    example(
        "drop-demo-code",
        "n: int",
        "def f(n):\n return n\nif __name__ == '__main__':\n print(f(1))",
        "LIMIT = 3\ndef f(n):\n return n + LIMIT",
    ),
    example(
        "name-entry-point",
        "n: int",
        "def compute(n):\n return n + 1",
        "def one(n):\n return n\ndef two(n):\n return n + 1",
    ),
    example(
        "imports-on-top",
        "n: int >= 0",
        "def f(n):\n from math import isqrt\n return isqrt(n)",
        "def f(n):\n import json\n return json.dumps(n)",
    ),
    example(
        "drop-unused-definitions",
        "n: int",
        "def g(n):\n return n\ndef f(n):\n return n",
        "def g(n):\n return n\ndef f(n):\n return g(n)",
    ),
    example(
        "drop-prints",
        "n: int",
        "def f(n):\n print(n)\n return n",
        "def f(n):\n print(n)\n return n",
        "n: any",
    ),
    example(
        "drop-idle-statements", "n: int", "def f(n):\n n + 1\n return n", "def f(n):\n 1 // n\n return n"
    ),
    example(
        "drop-messages",
        "n: int",
        "def f(n):\n if n < 0:\n  raise ValueError('negative')\n return n",
        "def f(n):\n if n < 3:\n  raise ValueError(1 // n)\n return n",
    ),
    # binders
    example(
        "free-builtin-names",
        "xs: list[int]",
        "def f(xs):\n sum = 0\n for max in xs:\n  sum = sum + max * max\n return sum",
        "def f(xs):\n return g(xs, sum=2)\ndef g(xs, sum):\n return [sum, *xs]",
    ),
    example(
        "own-comprehension-variables",
        "xs: list[int]",
        "def f(xs):\n x = 5\n return [x for x in xs] + [x]",
        "def f(xs):\n y = 5\n return [x for x in xs] + [y]",
    ),
    example(
        "own-loop-variable",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for x in xs:\n  t = t + x\n for x in xs:\n  t = t - 2 * x\n return t",
        "def f(xs):\n x = 0\n t = 0\n for x in xs:\n  t = t + x\n return t + x",
    ),
    # conditions
    example(
        "push-negation", "n: int", "def f(n):\n return not n < 3", "def f(x):\n return not x < 3", "x: float"
    ),
    example("less-than", "n: int", "def f(n):\n return n > 3", "def f(n):\n return n > 3", "n: any"),
    example(
        "strict-integers", "n: int", "def f(n):\n return n <= 3", "def f(n):\n return n <= 3", "n: float"
    ),
    example("equality-order", "n: int", "def f(n):\n return 3 == n", "def f(n):\n return 3 == n", "n: any"),
    example(
        "emptiness", "s: str", "def f(s):\n return len(s) == 0", "def f(s):\n return len(s) == 0", "s: any"
    ),
    example(
        "truth-of-integer",
        "n: int",
        "def f(n):\n if n:\n  return 1\n return 2",
        "def f(n):\n if n:\n  return 1\n return 2",
        "n: any",
    ),
    example("plain-boolean", "n: int", "def f(n):\n return (n < 3) == True", "def f(n):\n return n == True"),
    example(
        "flatten-boolean",
        "n: int",
        "def f(n):\n return n < 3 and (n > 1 and n != 2)",
        "def f(n):\n return n < 3 and (n > 1 or n != 2)",
    ),
    example(
        "decided-condition",
        "n: int >= 0",
        "def f(n):\n if n < 0:\n  return 1\n return 2",
        "def f(n):\n if n < 0:\n  return 1\n return 2",
        "n: int",
    ),
    example(
        "only-integer-left",
        "n: int >= 0",
        "def f(n):\n return n < 1",
        "def f(n):\n return n < 1",
        "n: int",
    ),
    example(
        "add-constant",
        "n: int; m: int",
        "def f(n, m):\n return n < m - 2",
        "def f(n, m):\n return n < m - 2",
        "n: float; m: float",
    ),
    example(
        "known-instance",
        "n: int",
        "def f(n):\n return isinstance(n, int)",
        "def f(n):\n return isinstance(n, int)",
        "n: any",
    ),
    example(
        "known-not-none", "n: int", "def f(n):\n return n is None", "def f(n):\n return n is None", "n: any"
    ),
    example(
        "split-chain",
        "n: int; xs: list[int]",
        "def f(n, xs):\n return [0 < n < 9, 0 < 7 // n < 9]",
        "def f(n, xs):\n return 0 < xs.pop() < 9",
    ),
    # containers
    example(
        "inline-table",
        "s: str",
        "def f(s):\n t = {'a': 1}\n return s in t",
        "def f(s):\n t = {'a': 1}\n t[s] = 2\n return len(t)",
    ),
    example(
        "inline-module-constant",
        "n: int",
        "K = 3\ndef f(n):\n return n + K",
        "K = []\ndef f(n):\n K.append(n)\n return len(K) * 0",
    ),
    example(
        "inline-pattern",
        "s: str",
        "import re\nWORD = re.compile('[a-c]+x')\ndef f(s):\n return WORD.sub('-', s)",
        "import re\nWORD = re.compile('[a-c]+x')\ndef f(s):\n return re.sub(WORD, '-', s)",
    ),
    example(
        "membership",
        "s: str",
        "def f(s):\n return s in {'b', 'a'}",
        "def f(s):\n return s in 'ba'",
    ),
    example(
        "equalities-to-membership",
        "s: str",
        "def f(s):\n return s == 'a' or s == 'b'",
        "def f(s):\n return s == 'a' or s == 'b'",
        "s: any",
    ),
    example(
        "lookup-table",
        "s: str",
        "def f(s):\n return {'b': 1, 'a': 2}.get(s)",
        "def f(s):\n return list({'b': 1, 'a': 2})",
    ),
    example(
        "keys-are-the-dict",
        "s: str",
        "def f(s):\n d = {}\n d[s] = 1\n return 'a' in d.keys()",
        "def f(s, d):\n return 'a' in d.keys()",
        "s: str; d: any",
    ),
    example(
        "expand-get",
        "n: int",
        "def f(n):\n d = {}\n d[n % 3] = n\n return d.get(0, 7)",
        "def f(n, d):\n return d.get(0, 7)",
        "n: int; d: any",
    ),
    example(
        "count-by-get",
        "s: str",
        "def f(s):\n d = {}\n e = {}\n g = {}\n for c in s:\n  if c in d:\n   d[c] = d[c] + 1\n  else:\n"
        "   d[c] = 1\n  if c not in e:\n   e[c] = 5\n  e[c] += 2\n"
        "  if c in g:\n   g[c] = g[c] + len(s)\n  else:\n   g[c] = len(s)\n return [d, e, g]",
        "def f(s):\n d = {}\n for c in s:\n  if c in d:\n   d[c] = d[c] + d[c]\n  else:\n   d[c] = 1\n"
        " return d",
    ),
    example(
        "counter-to-loop",
        "s: str",
        "import collections\ndef f(s):\n d = {k: n for k, n in collections.Counter(s).items() if n > 1}\n"
        " e = dict(collections.Counter(c.lower() for c in s))\n return [d, e, len(collections.Counter(s))]",
        "import collections\ndef f(s):\n return collections.Counter(s)['a']",
    ),
    example(
        "default-to-get",
        "s: str",
        "import collections\ndef f(s):\n d = collections.defaultdict(int)\n t = 0\n"
        " g = collections.defaultdict(list)\n e = collections.Counter()\n n = collections.Counter(s)\n"
        " seen = collections.defaultdict(lambda: 0)\n"
        " for c in s:\n  d[c] += 2\n  g[c.lower()].append(c)\n  e[c] += n['a'] + e['b']\n  t += seen[c]\n"
        "  seen[c] = t\n best = [k for k in sorted(d) if d[k] > 2]\n"
        " return [dict(d), {k: len(v) for k, v in g.items()}, dict(e), t, best, max(n.values(), default=0)]",
        "import collections\ndef f(s):\n d = collections.defaultdict(int)\n e = collections.Counter(s)\n"
        " for c in s:\n  d[c] += d['a'] + 1\n return [dict(d), e]",
    ),
    # dicts, sets and lists: grouping, filling, going through
    example(
        "insert-if-missing",
        "xs: list[str]",
        "def f(xs):\n d = {}\n e = {}\n g = {}\n for x in xs:\n  d.setdefault(len(x), []).append(x)\n"
        "  e.setdefault(x, len(e))\n  g[x] = g.get(x, 3)\n return [d, e, g]",
        "def f(xs):\n d = {}\n for x in xs:\n  d.setdefault(x, 1 // len(x))\n return d",
    ),
    example(
        "append-to-entry",
        "xs: list[str]",
        "def f(xs):\n d = {}\n e = {}\n for x in xs:\n  if len(x) in d:\n   d[len(x)].append(x)\n  else:\n"
        "   d[len(x)] = [x]\n  if x not in e:\n   e[x] = {len(x)}\n  else:\n   e[x].add(len(x))\n"
        " return [d, e]",
        "def f(xs):\n d = {}\n for x in xs:\n  if x in d:\n   d[x].append(len(d))\n  else:\n"
        "   d[x] = [len(d)]\n return d",
    ),
    example(
        "lengthen-entry",
        "xs: list[str]",
        "def f(xs):\n d = {}\n for x in xs:\n  d[len(x)] = d.get(len(x), []) + [x]\n return d",
        "def f(xs):\n d = {}\n r = []\n for x in xs:\n  d[len(x)] = d.get(len(x), []) + [x]\n"
        "  r.append(d[len(x)])\n return r",
    ),
    example(
        "loop-over-items",
        "s: str",
        "def f(s):\n d = {x: ord(x) for x in s}\n r = 0\n for c in d:\n  r = r + d[c] * len(c)\n"
        " for c, n in d.items():\n  r = r * 3 + d[c] - n\n return r",
        "def f(s):\n d = {x: ord(x) for x in s}\n r = 0\n for c in d:\n  d['a'] = 4 if 'a' in d else 5\n"
        "  r = r + d[c]\n return r",
    ),
    example(
        "items-in-comprehension",
        "s: str",
        "def f(s):\n d = {x: ord(x) for x in s}\n return [max([d[c] for c in d], default=0),"
        " sum(d[c] for c in d if d[c] > 60)]",
        "def f(s):\n d = {x: ord(x) for x in s}\n g = (d[x] for x in d)\n for c in s:\n  d[c] = 1\n"
        " return list(g)",
    ),
    example(
        "loop-over-part",
        "s: str",
        "def f(s):\n d = {x: ord(x) for x in s}\n r = []\n for c, n in d.items():\n  r.append(n)\n"
        " for c, n in d.items():\n  r.append(c)\n for k in d.keys():\n  r.append(k)\n return r",
        "def f(s):\n d = {x: ord(x) for x in s}\n r = []\n n = 0\n for c, n in d.items():\n  r.append(c)\n"
        " return [r, n]",
    ),
    example(
        "part-in-comprehension",
        "s: str",
        "def f(s):\n d = {x: ord(x) for x in s}\n"
        " return [[n for c, n in d.items()], [c for c, n in d.items()]]",
        "def f(s):\n d = {x: ord(x) for x in s}\n return [n for c, n in d.items() if c < 'b']",
    ),
    example(
        "loop-to-dict",
        "xs: list[int]",
        "def f(xs):\n d = {}\n s = set()\n for x in xs:\n  if x > 1:\n   d[x] = x * x\n for x in xs:\n"
        "  s.add(x % 3)\n return [d, sorted(s)]",
        "def f(xs):\n d = {}\n for x in xs:\n  d[x] = len(d)\n return d",
    ),
    example(
        "set-of-source",
        "xs: list[int]",
        "def f(xs):\n return len({x for x in xs})",
        "def f(xs):\n return len({x for x in xs if x})",
    ),
    example(
        "loop-over-comprehension",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for y in [x * x for x in xs if x > 1]:\n  t = t * 2 + y\n"
        " for y in (x + t for x in xs):\n  t = t + y\n return t",
        "def f(xs):\n for y in [x + len(xs) for x in xs]:\n  xs.append(y)\n return xs",
    ),
    example(
        "extend-by-elements",
        "xs: list[int]",
        "def f(xs):\n r = []\n for x in xs:\n  r.extend([x, x + 1])\n return r",
        "def f(xs):\n r = []\n for x in xs:\n  r.extend([x, len(r)])\n return r",
    ),
    example(
        "deque-to-list",
        "xs: list[int]",
        "import collections\ndef f(xs):\n q = collections.deque([0])\n r = []\n for x in xs:\n"
        "  q.append(x)\n  if x > 1:\n   q.appendleft(x + 1)\n  if len(q) > 3:\n   r.append(q.popleft())\n"
        " return [r, list(q), q[-1]]",
        "import collections\ndef f(xs):\n q = collections.deque(maxlen=2)\n p = collections.deque(xs)\n"
        " for x in xs:\n  q.append(x)\n for x in p:\n  if x == 3:\n   p.append(x)\n return list(q) + list(p)",
    ),
    example(
        "try-to-condition",
        "xs: list[int]; n: int >= 0",
        "def f(xs, n):\n d = {x: x * x for x in xs}\n r = list(xs)\n try:\n  t = r.pop() + 1\n"
        " except IndexError:\n  t = 0\n try:\n  d[n] = d[n] + t\n except KeyError:\n  d[n] = 5\n try:\n"
        "  t = xs[n]\n except LookupError:\n  t = -1\n try:\n  n = r.pop(0)\n except IndexError:\n"
        "  n = None\n return [t, d, r, n]",
        "def f(xs, n):\n d = {x: x * x for x in xs}\n try:\n  return d[n] // d[1]\n"
        " except KeyError:\n  return 0",
    ),
    example(
        "expand-dataclass",
        "n: int",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n x: int\n y: int = 2\n"
        " seen: list = dataclasses.field(default_factory=list)\n def total(self, k):\n  self.seen.append(k)\n"
        "  return self.x + self.y + len(self.seen)\n"
        "def f(n):\n p = P(n)\n p.total(1)\n return p.total(2)",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n x: int\n"
        "def f(n):\n p = P(n)\n return p == P(n)",
    ),
    example(
        "add-by-get",
        "xs: list[int]",
        "def f(xs):\n d = {}\n t = 0\n for x in xs:\n  if 4 - x in d:\n   t = t + d[4 - x]\n"
        "  d[x] = d.get(x, 0) + 1\n return t",
        "def f(xs):\n d = {}\n t = 0\n for x in xs:\n  if 4 - x in d:\n   t = t + d[4 - x] / 2\n"
        "  d[x] = d.get(x, 0) + 1\n return t",
    ),
    example(
        "neighbours-by-index",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for a, b in zip(xs, xs[1:]):\n  t = t * 2 + a - b\n return t",
        "def f(xs):\n t = 0\n for a, b in zip(xs, xs[1:]):\n  if t < 9:\n   xs.append(a)\n"
        "  t = t + b + 3\n return t",
    ),
    example(
        "neighbours-in-comprehension",
        "xs: list[int]",
        "def f(xs):\n return [sum(a < b for a, b in zip(xs, xs[2:])), [b - a for a, b in zip(xs, xs[1:])]]",
        "def f(xs):\n g = (b - a for a, b in zip(xs, xs[1:]))\n xs.append(9)\n return list(g)",
    ),
    example(
        "key-by-entry",
        "s: str",
        "def f(s):\n d = {x: ord(x) % 5 for x in s}\n"
        " return [max(d, key=d.get, default=0), sorted(d, key=d.get)]",
        "def f(s):\n d = {x: ord(x) % 5 for x in s}\n return sorted([*s, '!'], key=lambda x: d.get(x, 9))",
    ),
    example(
        "key-of-best-item",
        "s: str",
        "def f(s):\n d = {x: ord(x) % 3 for x in s + 'a'}\n"
        " return max(d.items(), key=lambda p: (p[1], p[0]))[0]",
        "def f(s):\n d = {x: ord(x) % 3 for x in s + 'a'}\n return max(d.items(), key=lambda p: p[::-1])[0]",
    ),
    example(
        "first-of-sorted",
        "xs: list[int]",
        "def f(xs):\n if xs:\n  return [sorted(xs)[0], sorted(xs)[-1], sorted(xs, key=lambda x: x % 3)[0]]\n"
        " return 0",
        "def f(xs):\n if xs:\n  return sorted(xs, key=lambda x: x % 3)[-1]\n return sorted(xs)[0]",
    ),
    example(
        "return-own",
        "xs: list[int]",
        "def f(xs):\n d = {}\n for x in xs:\n  d[x] = len(d)\n return dict(d)",
        "def f(xs):\n d = {}\n try:\n  d[1] = 2\n  return dict(d)\n finally:\n  d[3] = 4",
    ),
    example(
        "merge-literals",
        "xs: list[int]",
        "def f(xs):\n return xs + [1] + [2, 3]",
        "def f(xs):\n return [1] + [2, 3] + xs",
    ),
    # arithmetic
    example(
        "linear-form", "n: int", "def f(n):\n return 1 + n + 2", "def f(n):\n return 1 + n + 2", "n: float"
    ),
    example(
        "one-quotient",
        "a: int; b: int",
        "def f(a, b):\n return a + (b - a) // 2",
        "def f(a, b):\n return a + (b - a) // 2",
        "a: float; b: float",
    ),
    example("fold-integers", "n: int", "def f(n):\n return n * (2 * 3)", "def f(n):\n return n * (2 // 0)"),
    example("square", "n: int", "def f(n):\n return n ** 2", "def f(n):\n return n ** 2", "n: float"),
    example(
        "product-order",
        "n: int",
        "def f(n):\n return 3 * n",
        "def f(n):\n return 3 * n",
        "n: any",
    ),
    example(
        "integer-root",
        "n: int >= 0 <= 1000000",
        "def f(n):\n return int(n ** 0.5)",
        "def f(n):\n return int(n ** 0.5)",
        "n: int >= 0",
    ),
    example("fold-strings", "s: str", "def f(s):\n return s + ('a' + 'b')", "def f(s):\n return s + 'a'"),
    example("absolute", "n: int >= 0", "def f(n):\n return abs(n)", "def f(n):\n return abs(n)", "n: int"),
    # regex
    example(
        "canonical-regex",
        "s: str",
        "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s)",
        "import re\ndef f(s):\n return re.sub('([\\\\s])+', '-', s)",
    ),
    example(
        "delete-each",
        "s: str",
        "import re\ndef f(s):\n return re.sub('[ab]+', '', s)",
        "import re\ndef f(s):\n return re.sub('[ab]+', '-', s)",
    ),
    example(
        "compiled-regex",
        "s: str",
        "import re\ndef f(s):\n return re.compile('a').sub('b', s)",
        "import re\ndef f(s):\n return re.compile('a', re.I).sub('b', s)",
    ),
    # building
    example(
        "loop-to-comprehension",
        "xs: list[int]",
        "def f(xs):\n r = []\n for x in xs:\n  if x > 1:\n   r.append(x)\n return r",
        "def f(xs):\n r = []\n for x in xs:\n  r.append(len(r))\n return r",
    ),
    example(
        "comprehension-to-loop",
        "xs: list[int]",
        "def f(xs):\n return sum(g(x) for x in xs if x)\ndef g(k):\n if k > 2:\n  return k\n return 7 // k",
        "def f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1",
    ),
    example(
        "generator-argument",
        "s: str",
        "def f(s):\n return ''.join([c for c in s if c != 'a'])",
        "def f(xs):\n return any([1 // x for x in xs])",
        "xs: list[int]",
    ),
    example(
        "identity-comprehension",
        "xs: list[int]",
        "def f(xs):\n return [x for x in xs]",
        "def f(xs):\n return [x for x in xs if x]",
    ),
    example(
        "bare-source",
        "s: str",
        "def f(s):\n return ''.join(c for c in s)",
        "def f(s):\n return ''.join(c.upper() for c in s)",
    ),
    example(
        "copy-of-list", "xs: list[int]", "def f(xs):\n return xs[:]", "def f(xs):\n return xs[:]", "xs: any"
    ),
    example(
        "return-without-copy",
        "xs: list[int]",
        "def f(xs):\n return list(xs)",
        "def g(xs):\n return list(xs)\ndef f(xs):\n ys = g(xs)\n ys.append(1)\n return ys",
    ),
    example(
        "unpack-to-concatenation",
        "xs: list[int]",
        "def f(xs):\n return [*xs, 1]",
        "def f(xs):\n return [*xs, 1]",
        "xs: any",
    ),
    example("plain-slice", "s: str", "def f(s):\n return s[0:3]", "def f(s):\n return s[0:3]", "s: any"),
    example(
        "append-loop",
        "xs: list[int]",
        "def f(xs):\n r = [0]\n for x in xs:\n  r.append(x)\n return r",
        "def f(xs):\n r = xs\n for x in [1, 2]:\n  r.append(x)\n return r",
    ),
    example(
        "extend-then-return",
        "xs: list[int]",
        "def f(xs):\n r = [1]\n r.extend(xs)\n return r",
        "def f(xs):\n xs.extend([1])\n return xs",
    ),
    example(
        "concatenate-left",
        "s: str; t: str",
        "def f(s, t):\n return s + (t + s)",
        "def f(s, t):\n return s + (t + s)",
        "s: float; t: float",
    ),
    example(
        "expand-quantifier",
        "xs: list[int]",
        "def f(xs):\n return all(x > 1 for x in xs)",
        "def f(xs):\n return all([x > 1 for x in xs])",
    ),
    # guards
    example(
        "drop-redundant-guard",
        "n: int >= 0",
        "def f(n):\n if n == 1:\n  return 1\n r = 1\n for i in range(n):\n  r = r * 2 - 1\n return r",
        "def f(n):\n if n == 1:\n  return 5\n r = 1\n for i in range(n):\n  r = r * 2 - 1\n return r",
    ),
    example(
        "return-empty",
        "xs: list[int]",
        "def f(xs):\n if xs:\n  return [xs[0]]\n return xs",
        "def f(xs):\n if len(xs) > 1:\n  return [xs[0]]\n return xs",
    ),
    example(
        "split-guard",
        "n: int >= 0",
        "def f(n):\n if n < 2:\n  return n\n return n * 3",
        "def f(n):\n if n < 2:\n  return n\n return n * 3",
        "n: int",
    ),
    # branches
    example("drop-unreachable", "n: int", "def f(n):\n return n\n n = 1", "def f(n):\n n = 1\n return n"),
    example(
        "decide-constant",
        "n: int",
        "def f(n):\n if True:\n  return n\n return 1",
        "def f(n):\n if n:\n  return n\n return 1",
    ),
    example(
        "drop-empty-branch",
        "n: int",
        "def f(n):\n if n < 1:\n  pass\n return n",
        "def f(n):\n if n < 1:\n  n = 2\n return n",
    ),
    example(
        "flatten-else",
        "n: int",
        "def f(n):\n if n < 1:\n  return 1\n else:\n  n = 4\n return n",
        "def f(n):\n if n < 1:\n  n = 2\n else:\n  n = 4\n return n",
    ),
    example(
        "drop-final-jump",
        "xs: list[int]",
        "def f(xs):\n for x in xs:\n  if x:\n   xs = xs\n  continue\n return 1",
        "def f(xs):\n t = 0\n for x in xs:\n  if x:\n   continue\n  t = x + 1\n return t",
    ),
    example(
        "jump-to-else",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for x in xs:\n  if x < 1:\n   continue\n  t = t + x\n return t",
        "def f(xs):\n t = 0\n for x in xs:\n  if x < 1:\n   break\n  t = t + x\n return t",
    ),
    example(
        "merge-nested",
        "n: int",
        "def f(n):\n if n > 1:\n  if n < 9:\n   n = 5\n return n",
        "def f(n):\n if n > 1:\n  if n < 9:\n   n = 5\n  else:\n   n = 6\n return n",
    ),
    example(
        "merge-guards",
        "n: int",
        "def f(n):\n if n < 1:\n  return 0\n if n > 9:\n  return 0\n return n",
        "def f(n):\n if n < 1:\n  return 0\n if n > 9:\n  return 1\n return n",
    ),
    example(
        "share-suffix",
        "n: int",
        "def f(n):\n if n < 1:\n  t = 1\n  n = 3\n else:\n  t = 2\n  n = 3\n return t + n",
        "def f(n):\n if n < 1:\n  t = 1\n  n = 3\n else:\n  t = 2\n  n = 4\n return t + n",
    ),
    example(
        "expand-conditional",
        "n: int",
        "def f(n):\n r = []\n r.append(n + (1 if n < 1 else 2))\n return r[0] if r[0] > 3 else 2",
        "def f(n):\n return [1][n] + (1 if 5 // (n - 1) < 1 else 2)",
    ),
    example(
        "merge-alternatives",
        "n: int; m: int",
        "def f(n, m):\n r = [n]\n if n > 2:\n  if m > 2:\n   r.append(m)\n else:\n  r.append(m)\n return r",
        "def f(n, m):\n r = [n]\n if n > 2:\n  if m > 2:\n   r.append(m)\n else:\n  r.append(n)\n return r",
    ),
    example(
        "return-condition",
        "n: int",
        "def f(n):\n if n < 1:\n  return True\n return False",
        "def f(n, m):\n if n:\n  return True\n return m",
        "n: any; m: any",
    ),
    example(
        "orient-branches",
        "n: int",
        "def f(n):\n if n != 1:\n  n = 2\n else:\n  n = 3\n return n",
        "def f(n):\n if n == 1:\n  n = 2\n else:\n  n = 3\n return n",
    ),
    # assignments
    example(
        "split-chained",
        "n: int",
        "def f(n):\n a = b = 0\n return a + b + n",
        "def f(n):\n a = b = []\n a.append(n)\n return b",
    ),
    example(
        "split-tuple",
        "n: int",
        "def f(n):\n a, b = 0, n\n return a - b",
        "def f(a, b):\n a, b = b, a\n return a - b",
        "a: int; b: int",
    ),
    example(
        "expand-augmented",
        "n: int",
        "def f(n):\n n += 1\n return n",
        "def f(n):\n n += 1\n return n",
        "n: any",
    ),
    example(
        "drop-dead-store", "n: int", "def f(n):\n m = n + 1\n return n", "def f(n):\n m = n + 1\n return m"
    ),
    example(
        "drop-faint-variable",
        "xs: list[int]",
        "def f(xs):\n c = 0\n for x in xs:\n  c = c + 1\n return xs",
        "def f(xs):\n c = 0\n for x in xs:\n  c = c + 1\n return c",
    ),
    example(
        "drop-copy",
        "n: int >= 0",
        "def f(n):\n k = n\n t = 0\n while k > 3:\n  k = k // 2\n  t = t + k\n return t",
        "def f(n):\n k = n\n t = 0\n while k > 3:\n  k = k // 2\n  t = t + n\n return t",
    ),
    example(
        "split-parameter",
        "s: str",
        "def f(s):\n s = s.lower()\n return s + s",
        "def f(s):\n while len(s) > 3:\n  s = s[1:]\n return s",
    ),
    example(
        "simultaneous",
        "a: int >= 1; b: int >= 1",
        "def f(a, b):\n while b:\n  t = a % b\n  a = b\n  b = t\n return a",
        "def f(a, b):\n t = a\n a = b\n b = t\n return a - b + t",
    ),
    example(
        "order-simultaneous",
        "a: int; b: int",
        "def f(a, b):\n b, a = a, b\n return a - b",
        "def f(a, b):\n b, a = a // b, b // a\n return a - b",
    ),
    example(
        "default-to-else",
        "n: int",
        "def f(n):\n t = 1\n if n < 3:\n  t = 2\n return t",
        "def f(n):\n t = 1\n if n < 3:\n  t = t + 2\n return t",
    ),
    # inline
    example(
        "inline-next",
        "n: int",
        "def f(n):\n t = 7 // n\n return t + 1",
        "def f(n):\n t = 7 // n\n return n < 3 or t < 2",
    ),
    example(
        "inline-everywhere",
        "xs: list[int]",
        "def f(xs):\n k = len(xs)\n return k * k",
        "def f(xs):\n k = len(xs)\n xs.append(1)\n return k * k",
    ),
    example(
        "sink-into-branches",
        "n: int",
        "def f(n):\n if n > 1:\n  t = n\n elif n < -1:\n  t = 7 // (n + 2)\n else:\n  t = 3\n return t + 1",
        "def f(n):\n if n > 1:\n  t = n\n else:\n  t = 7 // n\n return [[8][n], t]",
    ),
    # loops
    example(
        "break-to-return",
        "xs: list[int]",
        "def f(xs):\n t = 1\n for x in xs:\n  if x < 1:\n   t = 2\n   break\n return t",
        "def f(xs):\n t = 1\n for x in xs:\n  if x < 1:\n   break\n t = 3\n return t",
    ),
    example(
        "loop-else",
        "xs: list[int]",
        "def f(xs):\n for x in xs:\n  if x < 1:\n   return 1\n else:\n  return 2",
        "def f(xs):\n t = 0\n for x in xs:\n  if x < 1:\n   break\n else:\n  t = 2\n return t + 1",
    ),
    example(
        "while-true",
        "n: int >= 0 <= 50",
        "def f(n):\n while True:\n  if n < 3:\n   break\n  n = n - 1\n return n",
        "def f(n):\n while True:\n  n = n - 1\n  if n < 3:\n   break\n return n",
    ),
    example(
        "counting-loop",
        "n: int >= 0 <= 50",
        "def f(n):\n t = 0\n i = 1\n while i < n:\n  t = t + i\n  i = i + 1\n return t",
        "def f(n):\n t = 0\n i = 1\n while i < n:\n  t = t + i\n  i = i + 1\n return t + i",
    ),
    example(
        "index-to-element",
        "s: str",
        "def f(s):\n t = 0\n for i in range(len(s)):\n  if s[i] == 'a':\n   t = t + 1\n return t",
        "def f(s):\n t = 0\n for i in range(len(s)):\n  if s[i] == 'a':\n   t = t + i\n return t",
    ),
    example(
        "enumerate-to-index",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for i, x in enumerate(xs):\n  if x > i:\n   t = t * 2 + x\n return t",
        "def f(xs):\n t = 0\n for i, x in enumerate(xs):\n  if xs.pop() > i:\n   t = t * 2 + x\n return t",
    ),
    example(
        "loop-over-reversed",
        "xs: list[int]",
        "def f(xs):\n t = 1\n for x in reversed(xs):\n  t = t * 2 + x\n return t",
        "def f(xs):\n t = 1\n for x in reversed(xs):\n  t = t * 2 + x\n  if xs[0] > 3:\n"
        "   xs[0] = x - 1\n return t",
    ),
    example(
        "drop-enumerate",
        "s: str",
        "def f(s):\n for i, c in enumerate(s):\n  if c == 'a':\n   return 1\n return 2",
        "def f(s):\n for i, c in enumerate(s):\n  if c == 'a':\n   return i\n return -2",
    ),
    example(
        "anonymous-rounds",
        "n: int >= 0 <= 50",
        "def f(n):\n t = 1\n for i in range(2, n + 1):\n  t = t * 2\n return t",
        "def f(n):\n t = 1\n for i in range(2, n + 1):\n  t = t * i\n return t",
    ),
    example(
        "shift-index",
        "xs: list[int]",
        "def f(xs):\n t = 1\n for i in range(1, len(xs)):\n  t = 2 * t + xs[i] - xs[i - 1]\n return t",
        "def f(xs):\n t = 1\n for i in range(1, len(xs)):\n  t = i * t + xs[i] - xs[i - 1]\n return t",
    ),
    example(
        "skip-idle-round",
        "n: int >= 0 <= 50",
        "def f(n):\n t = 1\n for i in range(1, n + 1):\n  t = t * i\n return t",
        "def f(n):\n t = 1\n for i in range(1, n + 1):\n  t = t + i\n return t",
    ),
    # stacks
    example(
        "pop-at-test",
        "s: str",
        "def f(s):\n k = []\n for c in s:\n  k.append(c)\n for c in s:\n  if not k or k[-1] != c:\n   "
        "return False\n  k.pop()\n return True",
        "def f(s):\n k = []\n for c in s:\n  k.append(c)\n for c in s:\n  if not k or k[-1] != c:\n   "
        "return len(k)\n  k.pop()\n return True",
    ),
    example(
        "three-way",
        "a: int; b: int",
        "def f(a, b):\n if a < b:\n  return 1\n elif a > b:\n  return 2\n else:\n  return 3",
        "def f(a, b):\n if a < b:\n  return 1\n elif a > b:\n  return 2\n else:\n  return 3",
        "a: float; b: float",
    ),
    example(
        "invert-table",
        "s: str",
        "def f(s):\n k = []\n for c in s:\n  if c in ('a', 'b'):\n   k.append(c)\n  elif c in ('A', 'B'):\n"
        "   if not k or {'a': 'A', 'b': 'B'}[k.pop()] != c:\n    return False\n return not k",
        "def f(s):\n k = []\n for c in s:\n  if c in ('a', 'b', 'ß'):\n   k.append(c)\n"
        "  elif c in ('A', 'B'):\n"
        "   if not k or {'a': 'A', 'b': 'B'}[k.pop()] != c:\n    return False\n return not k",
    ),
    # merging
    example(
        "merge-ties",
        "xs: list[int]",
        "def f(xs):\n if len(xs) < 2:\n  return xs\n i = 0\n j = 0\n a = f(xs[:len(xs) // 2])\n"
        " b = f(xs[len(xs) // 2:])\n r = []\n while i < len(a) and j < len(b):\n  if b[j] < a[i]:\n   "
        "r.append(b[j])\n"
        "   j = j + 1\n  else:\n   r.append(a[i])\n   i = i + 1\n return r + a[i:] + b[j:]",
        "def f(xs):\n if len(xs) < 2:\n  return xs\n i = 0\n j = 0\n a = f(xs[:len(xs) // 2])\n"
        " b = f(xs[len(xs) // 2:])\n r = []\n while i < len(a) and j < len(b):\n  if b[j] < a[i]:\n   "
        "r.append(b[j])\n"
        "   j = j + 1\n  else:\n   r.append(a[i])\n   i = i + 1\n return r + a[i:] + b[j:]",
        "xs: list[str]",
    ),
    # ordering
    example(
        "conditions-first",
        "n: int; m: int",
        "def f(n, m):\n k = m + 1\n if n > 2:\n  n = n - 2\n return [k, n]",
        "def f(n, m):\n k = n + 1\n if n > 2:\n  n = n - 2\n return [k, n]",
    ),
    example(
        "order-assignments",
        "xs: list[int]",
        "def f(xs):\n a = len(xs)\n b = 0\n return [a, b, a, b]",
        "def f(xs):\n a = len(xs)\n b = a\n return [a, b, a, b]",
    ),
    # literals
    example("empty-literal", "n: int", "def f(n):\n return [dict(), list(), n]", "def f(n):\n return set()"),
    example(
        "fold-call", "n: int", "def f(n):\n return ord('a') + len('abc') + n", "def f(n):\n return ord('ab')"
    ),
    example(
        "plain-range", "n: int", "def f(n):\n return list(range(0, n, 1))", "def f(n):\n return range(1, n)"
    ),
    example(
        "drop-conversion", "s: str", "def f(s):\n return str(s)", "def f(s):\n return str(s)", "s: float"
    ),
    example(
        "format-to-concatenation",
        "s: str; n: int",
        "def f(s, n):\n return f'{s}:{n}' + '<{}{}>'.format(n, s)",
        "def f(s, n):\n return f'{s:>5}{n!r}' + '{0}{}'.format(n)",
    ),
    # iteration
    example(
        "map-to-generator",
        "s: str",
        "def f(s):\n return list(map(ord, s)) + [len(x) for x in filter(lambda c: c != 'a', s)] + "
        "list(filter(lambda c: c != 'a', s))",
        "def f(s):\n m = map(ord, s)\n return [next(m, 0), sum(m)]",
    ),
    example(
        "reversed-to-slice",
        "xs: list[int]",
        "def f(xs):\n return list(reversed(xs))",
        "def f(xs):\n return list(reversed(range(len(xs))))",
    ),
    example(
        "change-in-place",
        "xs: list[int]",
        "def f(xs):\n r = list(xs)\n r.sort()\n r.reverse()\n return r",
        "def f(xs):\n xs.sort()\n return xs",
    ),
    example(
        "expand-divmod",
        "n: int; m: int",
        "def f(n, m):\n return divmod(n, m)",
        "def f(n, m):\n return divmod(n, m)",
        "n: float; m: int",
    ),
    example(
        "set-operator",
        "xs: list[int]; ys: list[int]",
        "def f(xs, ys):\n return sorted(set(xs).intersection(set(ys)))",
        "def f(xs, ys):\n return sorted(set(xs).intersection(ys))",
    ),
    example(
        "consume-directly",
        "xs: list[int]",
        "def f(xs):\n return sorted(list(x % 3 for x in xs))",
        "def f(xs):\n return any(list(3 // x for x in xs))",
    ),
    # joining
    example(
        "join-to-concatenation",
        "s: str",
        "def f(s):\n r = []\n for c in s:\n  if c == 'a':\n   r.append(c)\n  else:\n   r.append('b')\n   "
        "r.append(c)\n return ''.join(r)",
        "def f(s):\n r = []\n for c in s:\n  if c == 'a':\n   r.append(c)\n  elif r:\n   r.append('b')\n"
        " return ''.join(r)",
    ),
    # totals
    example(
        "count-to-sum",
        "xs: list[int]",
        "def f(xs):\n return len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)",
        "def f(xs):\n return len([1 // x for x in xs]) + sum(x for x in xs)",
    ),
    example(
        "loop-to-sum",
        "xs: list[int]",
        "def f(xs):\n t = 0\n for x in xs:\n  if x > 1:\n   t = t + x\n return t",
        "def f(xs):\n t = 0\n for x in xs:\n  if x > t:\n   t = t + x\n return t",
    ),
    example(
        "keep-extreme",
        "n: int; m: int",
        "def f(n, m):\n if n < m:\n  n = m\n if n > 7:\n  k = 7\n else:\n  k = n\n return [n, k]",
        "def f(n, m):\n if n < m:\n  n = m\n return n",
        "n: float; m: float",
    ),
    example(
        "order-extremes",
        "n: int; m: int",
        "def f(n, m):\n return max(m, n)",
        "def f(n, m):\n return max(m, n)",
        "n: float; m: float",
    ),
    # objects
    example(
        "read-attribute-back",
        "n: int",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def add(self, k):\n  t = self.x + k\n"
        "  self.x = t\n  return t * t\ndef f(n):\n b = Box(n)\n return [b.add(2), b.add(n)]",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def add(self, k):\n  t = self.x + k\n"
        "  self.x = t\n  self.x = 0\n  return t * t\ndef f(n):\n b = Box(n)\n return [b.add(2), b.add(n)]",
    ),
    example(
        "drop-unused-methods",
        "n: int",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def __repr__(self):\n  return 'Box'\n"
        " def unused(self):\n  return 0\ndef f(n):\n return Box(n).x",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def __repr__(self):\n  return 'Box'\n"
        "def f(n):\n return str(Box(n))",
    ),
    # arguments
    example(
        "explicit-arguments",
        "n: int",
        "def g(a, b=2, c=3):\n return a * b - c if a < 9 else g(a - 9, b, c)\n"
        "def f(n=0):\n return g(n) + g(n, b=5)",
        "def g(a, b=[]):\n b.append(a)\n return len(b) - len(b)\ndef f(n):\n return g(n) + g(n)",
    ),
    # helpers
    example(
        "lift-function",
        "n: int",
        "def f(n):\n def g(k):\n  if k > 3:\n   return g(k - 3) + n\n  return k * n\n return g(n) + g(5)",
        "def f(n):\n t = n\n def g(k):\n  return k * t\n t = 5\n return g(n)",
    ),
    example(
        "hoist-function",
        "n: int",
        "def f(n):\n def g(k):\n  return k + 1\n return g(n) * g(2)",
        "def f(n):\n def g(k):\n  return k + n\n return g(n) * g(2)",
    ),
    example(
        "inline-function",
        "n: int",
        "def f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b:\n  return b\n return a",
        "def f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b or a < 1:\n  return b\n return g(a - 1, b)",
    ),
    example(
        "order-definitions",
        "n: int",
        "def g(n):\n return n if n < 9 else g(n - 9)\ndef f(n):\n return g(n)",
        "def f(n):\n return g(n)\ndef g(n):\n return n if n < 9 else g(n - 9)",
    ),
    example(
        "sink-to-uses",
        "n: int; m: int",
        "def f(n, m):\n t = m // n\n if n < m:\n  return [t]\n if m == 3:\n  return -t\n return t + 1",
        "def f(n, m):\n t = m // n\n if n < m:\n  return 0\n if m == 3:\n  return -t\n return t + 1",
    ),
    example(
        "skip-idle-terms",
        "n: int",
        "def f(n):\n return sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)",
        "def f(n):\n return sum(x * x + n for x in range(n) if 7 // (x - n) < 3)",
    ),
    # indices
    example(
        "counter-by-hand",
        "xs: list[int]",
        "def f(xs):\n i = 0\n r = []\n for x in xs:\n  if x > i:\n   r.append(i)\n  i = i + 1\n return r",
        "def f(xs):\n i = 0\n r = []\n for x in xs:\n  if x > i:\n   r.append(i)\n   continue\n"
        "  i = i + 1\n return r",
    ),
    example(
        "index-in-comprehension",
        "xs: list[int]",
        "def f(xs):\n return [i * x for i, x in enumerate(xs) if x]",
        "def f(xs):\n g = (i * x for i, x in enumerate(xs) if x)\n xs.append(7)\n return list(xs for _ in g)",
    ),
    example(
        "element-in-comprehension",
        "xs: list[int]; k: int >= 0",
        "def f(xs, k):\n return sum(xs[i] * xs[i] for i in range(k, len(xs)))",
        "def f(xs, k):\n return [xs[i] for i in range(k, len(xs))]",
        "xs: list[int]; k: int",
    ),
    example(
        "pairs-to-the-end",
        "xs: list[int]",
        "def f(xs):\n r = []\n for i in range(len(xs) - 1):\n  for j in range(i + 1, len(xs)):\n"
        "   r.append(xs[i] - xs[j])\n return r",
        "def f(xs):\n r = []\n for i in range(len(xs) - 1):\n  for j in range(i, len(xs)):\n"
        "   r.append(xs[i] - xs[j])\n return r",
    ),
    # connectives, and the order of methods
    example(
        "order-operands",
        "a: int; b: int",
        "def f(a, b):\n return a + b < 9 and a != b",
        "def f(a, b):\n return 9 // (a + b) < 9 and a != b",
    ),
    example(
        "equal-to-first",
        "a: int; b: int; c: int",
        "def f(a, b, c):\n return [a == b and b == c, b != c or c != a]",
        "def f(a, b, c):\n return a == b and b == c",
        "a: float; b: float; c: float",
    ),
    example(
        "order-methods",
        "n: int",
        "class Box:\n def low(self):\n  return self.x - 1\n def high(self):\n  return self.x + 1\n"
        " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return [b.high(), b.low()]",
        "class Box:\n def low(self):\n  return 0\n def low(self):\n  return self.x\n"
        " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return b.low()",
    ),
    # alpha
    example("rename-private", "n: int", "def f(n):\n m = n\n return m", "def f(v0):\n return v0"),
]
