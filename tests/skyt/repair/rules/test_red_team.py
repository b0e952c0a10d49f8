"""Programs that once had a normal form that does something else: what they have in common is that a value is
reached, or a function run, in a way that the text at that place does not show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyt.repair.rules import normal_form

from .test_each_rule import facts_of, outcome, values_of

# title: (facts, program)
PROGRAMS = {
    "nested-grid-float": (
        "n: int >= 0 <= 6",
        """
def f(n):
    grid = [[0] * 3 for _ in range(3)]
    for i in range(3):
        grid[i][0] = n / 4
    count = 0
    for row in grid:
        for v in row:
            if v > 0:
                count += 1
            if v <= 0:
                count += 10
    return count
""",
    ),
    "nested-chars": (
        "s: str",
        """
def f(s):
    rows = [list(s), list(s)]
    if rows[0]:
        rows[0][0] = rows[0][0] + rows[0][-1]
    return [c in "abAB" for row in rows for c in row]
""",
    ),
    "alias-attr": (
        "n: int >= 0 <= 6",
        """
class Box:
    def __init__(self):
        self.items = [0]
    def fill(self, v):
        x = self.items
        x.append(v / 2)
    def positive(self):
        return [i for i in self.items if i > 0 and not i >= 3]
def f(n):
    b = Box()
    b.fill(n)
    return b.positive()
""",
    ),
    "fill-arg-attr": (
        "n: int >= 0 <= 6",
        """
def put(xs, v):
    xs.append(v)
class Box:
    def __init__(self):
        self.items = [0]
def f(n):
    b = Box()
    put(b.items, n / 2)
    return [i > 0 for i in b.items] + [i < 1 for i in b.items]
""",
    ),
    "class-default-none": (
        "xs: list[int]",
        """
class Stack:
    top = None
    def push(self, x):
        self.top = x
    def peek(self):
        if self.top is None:
            return -1
        return self.top
def f(xs):
    s = Stack()
    for x in xs:
        if x > 2:
            s.push(x)
    return s.peek()
""",
    ),
    "max-default": (
        "xs: list[int]",
        """
def f(xs):
    m = max(xs, default=None)
    if m is None:
        return -1
    return m
""",
    ),
    "max-default2": (
        "xs: list[int]",
        """
def f(xs):
    best = max((x for x in xs if x > 3), default=None)
    return best is not None and best > 4
""",
    ),
    "min-default-str": (
        "s: str",
        """
def f(s):
    c = max(s, default='')
    return c in 'abz'
""",
    ),
    "sum-start": (
        "xs: list[int]",
        """
def f(xs):
    t = sum(xs, start=0.5)
    return t > 0, t <= 3
""",
    ),
    "sum-zip": (
        "xs: list[int]; ys: list[float]",
        """
def f(xs, ys):
    return [sum(p) > 0 for p in zip(xs, ys)]
""",
    ),
    "deque-init": (
        "n: int >= 0 <= 3",
        """
from collections import deque
def f(n):
    q = deque([0.5, 0.25])
    q.append(n)
    out = 0
    while q:
        x = q.popleft()
        if x > 0:
            out += 1
    return out
""",
    ),
    "generator-late": (
        "xs: list[int]",
        """
def f(xs):
    k = 1
    g = (x + k for x in xs)
    k = 100
    return list(g)
""",
    ),
    "generator-twice": (
        "xs: list[int]",
        """
def f(xs):
    g = (x * 2 for x in xs)
    b = sum(g)
    a = list(g)
    return a, b
""",
    ),
    "generator-any": (
        "xs: list[int]",
        """
def f(xs):
    g = (x for x in xs)
    found = any(x > 2 for x in g)
    rest = list(g)
    return rest, found
""",
    ),
    "generator-idle": (
        "xs: list[int]",
        """
def f(xs):
    g = (x for x in xs)
    list(g)
    return sum(g)
""",
    ),
    "module-update": (
        "n: int",
        """
TABLE = {}
TABLE.update({1: 'a', 2: 'b'})
def f(n):
    return TABLE.get(n, '?')
""",
    ),
    "module-registry": (
        "n: int",
        """
HANDLERS = {}
def register(fn):
    HANDLERS[fn.__name__] = fn
    return fn
@register
def double(n):
    return n * 2
@register
def half(n):
    return n // 2
def f(n):
    return [h(n) for h in HANDLERS.values()]
""",
    ),
    "module-store": (
        "n: int",
        """
def double(n):
    return n * 2
OPS = {}
OPS['d'] = double
def f(n):
    return OPS['d'](n)
""",
    ),
    "typing-namedtuple": (
        "n: int",
        """
from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int
def f(n):
    p = P(n, n + 1)
    return p.x + p.y
""",
    ),
    "custom-error": (
        "n: int >= 0",
        """
class InsufficientFundsError(Exception):
    def __init__(self, balance, amount):
        super().__init__(f"{balance} < {amount}")
        self.balance = balance
def f(n):
    if n > 3:
        raise InsufficientFundsError(3, n)
    return n
""",
    ),
    "message-read": (
        "n: int",
        """
def check(n):
    if n < 0:
        raise ValueError("negative")
    return n
def f(n):
    try:
        return check(n)
    except ValueError as e:
        return str(e)
""",
    ),
    "message-args": (
        "n: int",
        """
def f(n):
    try:
        if n < 0:
            raise ValueError("negative")
        return n
    except ValueError as e:
        return e.args
""",
    ),
    "arg-order": (
        "xs: list[int]",
        """
def h(a, b):
    return a.pop() + b
def f(xs):
    if not xs:
        return 0
    return h(xs, len(xs))
""",
    ),
    "shadow-helper": (
        "n: int",
        """
def square(x):
    return x * x
def apply(square, x):
    return square(x)
def f(n):
    return apply(lambda v: v + 1, n) + square(n)
""",
    ),
    "decorated-type": (
        "n: int",
        """
def stringify(fn):
    def wrapper(*args):
        return str(fn(*args))
    return wrapper
@stringify
def helper(n):
    return n
def f(n):
    return str(helper(n)) + '!', helper(n) == 3, helper(n) * 2
""",
    ),
    "callback-type2": (
        "n: int",
        """
def positive(x):
    return not x <= 0
def f(n):
    a = positive(n)
    return [a] + list(filter(positive, [0.5, 0.0, -1.5, float('nan')]))
""",
    ),
    "any-receiver": (
        "n: int >= 0 <= 5",
        """
class Node:
    def __init__(self):
        self.v = 0
        self.next = None
    def put(self, v):
        if v > 0:
            self.v = v
def f(n):
    a = Node()
    a.put(n)
    a.next = Node()
    b = a.next
    b.put(n / 4)
    return a.v, b.v
""",
    ),
    "cls-ctor": (
        "n: int >= 0 <= 5",
        """
class Temp:
    def __init__(self, d):
        self.d = d
    @classmethod
    def half(cls, v):
        return cls(v / 2)
    def warm(self):
        return self.d > 0
def f(n):
    return Temp(n).warm(), Temp.half(n).warm()
""",
    ),
    "super-init": (
        "n: int >= 0 <= 5",
        """
class A:
    def __init__(self, v):
        self.v = v
    def pos(self):
        return self.v > 0
class B(A):
    def __init__(self, v):
        super().__init__(v / 4)
def f(n):
    return A(n).pos(), B(n).pos()
""",
    ),
    "sorted-key-raises": (
        "xs: list[int]; n: int",
        """
def f(xs, n):
    ys = sorted(xs, key=lambda v: 10 // v)
    if n < 0:
        return []
    return ys
""",
    ),
    "defaultdict-read": (
        "n: int",
        """
from collections import defaultdict
def f(n):
    d = defaultdict(list)
    x = d[n]
    flag = not d
    return flag, x
""",
    ),
    "ops-dict": (
        "n: int",
        """
def double(n):
    return n * 2
def triple(n):
    return n * 3
OPS = {'d': double, 't': triple}
def f(n):
    return OPS['d'](n) + OPS['t'](n)
""",
    ),
    "class-attr-count": (
        "xs: list[int]",
        """
class Counter:
    total = 0
    def __init__(self):
        Counter.total += 1
    def get(self):
        return Counter.total
def f(xs):
    Counter.total = 0
    for x in xs:
        c = Counter()
    return Counter().get()
""",
    ),
    "class-attr-demo": (
        "n: int",
        """
class Ids:
    next_id = 1
    def __init__(self):
        self.id = Ids.next_id
        Ids.next_id += 1
a = Ids()
def f(n):
    return Ids().id > 1
""",
    ),
    "repr-name": (
        "n: int",
        """
class Point:
    def __init__(self, x):
        self.x = x
    def __repr__(self):
        return f"{self.__class__.__name__}({self.x!r})"
def f(n):
    return repr(Point(n)) + str(type(Point(n)).__name__)
""",
    ),
    "namedtuple-own-class": (
        "n: int",
        """
from collections import namedtuple
P = namedtuple('P', 'x y')
class Q:
    def __init__(self, x):
        self.x = x
def f(n):
    p = P(n, 2)
    q = Q(p.x)
    return p.x + q.x
""",
    ),
    "closure-var": (
        "n: int",
        """
def f(n):
    x = n
    def g():
        return x + 1
    a = g()
    x = 100
    return a, g()
""",
    ),
    "rec-attr-helper": (
        "n: int",
        """
class Node:
    def __init__(self, v, nxt):
        self.v = v
        self.nxt = nxt
def total(node):
    if node is None:
        return 0
    return node.v + total(node.nxt)
def f(n):
    node = Node(n, Node(2, None))
    a = total(node)
    node.v = 50
    b = total(node)
    return a - b
""",
    ),
    "rec-global-state": (
        "n: int",
        """
state = {'k': 0}
def depth(n):
    if n <= 0:
        return state['k']
    return depth(n - 1) + 1
def f(n):
    state['k'] = 5
    a = depth(min(n, 5))
    state['k'] = 7
    return a
""",
    ),
    "recursion-self-map": (
        "n: int >= 1 <= 6",
        """
def f(n):
    if n == 0:
        return [0]
    if n < 0:
        return [-1]
    return list(map(f, range(n - 2, n)))
""",
    ),
    "init-fn": (
        "n: int >= 0 <= 15",
        """
TABLE = []
def build():
    for i in range(5):
        TABLE.append(i * i)
build()
def f(n):
    return TABLE[n % 5]
""",
    ),
    "init-global": (
        "n: int",
        """
LIMIT = 1
def setup():
    global LIMIT
    LIMIT = 7
setup()
def f(n):
    return n > LIMIT
""",
    ),
    "deque-del-iter": (
        "xs: list[int]",
        """
from collections import deque
def f(xs):
    q = deque(xs)
    out = 0
    for x in q:
        out += x
        if x == 2:
            del q[0]
    return out
""",
    ),
    "quotient-bound": (
        "n: int >= -9 <= -3",
        """
def f(n):
    q = n // 2
    if q > -3:
        return 'a'
    if q < -4:
        return 'b'
    return 'c'
""",
    ),
    "product-of-pops": (
        "xs: list[int]",
        """
def f(xs):
    if len(xs) < 2:
        return 0
    t = xs.pop() * xs.pop()
    if t < 0:
        return -1
    return t
""",
    ),
    "max-with-key": (
        "a: int >= -9 <= 9; b: int >= 0 <= 3",
        """
def f(a, b):
    m = max(b, a, key=abs)
    if m < 0:
        return 'negative'
    return m
""",
    ),
    "faint-in-loops": (
        "xs: list[int]; n: int",
        """
def f(xs, n):
    i = j = 0
    t = 1
    for x in xs:
        i -= i
        if x > n:
            j = j + 1
            t += x
        else:
            j = j * 2
    return t
""",
    ),
}


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_normal_form_behaves_as_the_program(title: str) -> None:
    facts, code = PROGRAMS[title]
    known = facts_of(facts)
    form = normal_form(code, known)
    assert form.complete, form.failure

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.tuples(*(values_of(p) for p in known.parameters)))
    def same(arguments: tuple[Any, ...]) -> None:
        assert outcome(form.text, list(arguments)) == outcome(code, list(arguments))

    same()
