"""Which operations on values of known types cannot raise, in one table. What is not listed there may."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis import types
from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.trees import text, words
from skyt.repair.rules.analysis.types import ANY, IMMUTABLE, SIZED, Type, element, is_int, is_str, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

NOTHING: frozenset[str] = frozenset()
UNKNOWN = "*"
ANYTHING = frozenset({UNKNOWN})
LARGEST = 2**62  # no container has as many elements
ITERABLE = SIZED | {"str", "char", "iter"}
SEQUENCES = frozenset({"list", "tuple", "str", "char", "deque"})
WHOLE = frozenset({"int", "bool"})


def _items(t: Type) -> Type:
    """What is in a container, where that is one type."""
    return element(t) if kind(t) in ITERABLE else ANY


def _shown(node: ast.expr, scope: Scope) -> bool:
    """Whether a value can be written as text: an integer may have too many digits, but not a caller's."""
    t = scope.type_of(node)
    given = isinstance(node, ast.Name) and scope.given(node.id)
    return given if is_int(t) else t in IMMUTABLE


def _short(node: ast.expr, scope: Scope) -> bool:
    """Whether no range is in what it goes through: a range may have any length."""
    if isinstance(node, ast.GeneratorExp) or kind(scope.type_of(node)) != "iter":
        return True
    made = isinstance(node, ast.Call) and types.called_name(node.func) in types.LAZY | {
        ".keys",
        ".values",
        ".items",
    }
    return made and all(_short(a, scope) for a in node.args)  # type: ignore[attr-defined]


# The words of the table: what is said of a type, and of a value in its place. Other words are kinds of types.
OF_TYPE: dict[str, Callable[[Type], bool]] = {
    "any": lambda t: True,
    "plain": lambda t: t in IMMUTABLE,
    "flat": lambda t: kind(t) in SIZED and all(x in IMMUTABLE for x in t[1:]),  # type: ignore[index]
    "whole": lambda t: t in WHOLE,
    "number": lambda t: t in WHOLE or t == "float",
    "text": is_str,
    "sortable": lambda t: _items(t) in {"int", "str", "char"},
    "iterable": lambda t: kind(t) in ITERABLE,
    "sized": lambda t: kind(t) in ITERABLE - {"iter"},
    "searched": lambda t: kind(t) in SIZED | {"iter"},
    "sequence": lambda t: kind(t) in SEQUENCES,
}
OF_VALUE: dict[str, Callable[[ast.expr, Scope], bool]] = {
    "natural": lambda node, scope: scope.at_least(0, node),
    "nonzero": lambda node, scope: is_int(scope.type_of(node)) and scope.nonzero(node),
    "step": lambda node, scope: int_value(node) not in (None, 0),
    "index": lambda node, scope: scope.at_least(-LARGEST, node) and scope.at_most(LARGEST, node),
    "full": lambda node, scope: scope.nonempty(node),
    "shown": _shown,
    "short": _short,
    "separator": lambda node, scope: isinstance(part := getattr(node, "value", 0), str) and part != "",
    "counter": lambda node, scope: isinstance(node, ast.Call) and text(node.func) == "collections.Counter",
}

# By operation, the operands that it bears, a method's owner first, and what it may raise then.
TABLE = """
Add: whole whole | text text | list list | tuple tuple
Sub BitAnd BitOr BitXor: whole whole | set set
Mult: whole whole
FloorDiv Mod: int nonzero | int int -> ZeroDivisionError
Pow: int natural
USub UAdd abs: number
Eq NotEq: plain any | any plain | flat flat
Lt LtE Gt GtE: number number | text text
In NotIn: plain searched | text text
[]: sequence int -> IndexError | dict plain -> KeyError
for: iterable
FormattedValue repr: shown
str: | shown
len: sized
list tuple: | sized | iterable&short | iterable -> OverflowError
enumerate: iterable
set: | plains
frozenset: plains
dict collections.OrderedDict collections.deque collections.defaultdict collections.Counter:
bool: | plain | iterable
reversed: sequence
sorted: sized&sortable | sortable&short | sortable -> OverflowError
sum: wholes
ord: char
range: int | int int | int int step
min max math.gcd: int int | int int int
zip: iterable iterable | iterable iterable iterable
isinstance: any any
math.isqrt: natural
.lower .upper .casefold .title .capitalize .swapcase .splitlines: text
.isalnum .isalpha .isdigit .isspace .islower .isupper .isnumeric .isdecimal .isascii: text
.strip .lstrip .rstrip: text | text text
.startswith .endswith .removeprefix .removesuffix .find .rfind: text text
.count: text text | list&plains plain
.replace: text text text
.join: text texts
.split .rsplit: text | text separator
.get: dict plain | dict plain any
.keys .values .items: dict | counter
.copy: dict | list
.reverse: list | deque
.append: list any | deque any
.extend: list sized | list iterable&short | list iterable -> OverflowError | deque sized
.add .discard: set plain
.insert: list index any | list int any -> OverflowError
.sort: list&sortable
.setdefault: dict plain any
.popleft: deque&full | deque -> IndexError
.pop: list&full | deque&full | list -> IndexError | deque -> IndexError | list index -> IndexError \
 | list int -> IndexError OverflowError | dict plain -> KeyError | dict plain any
"""
Signature = tuple[list[list[str]], frozenset[str]]  # the words of each operand, and what it may raise


def _signature(text: str) -> Signature:
    operands, _, errors = text.partition("->")
    return [word.split("&") for word in operands.split()], words(errors)


ROWS = [row.partition(":") for row in TABLE.strip().splitlines()]
SIGNATURES = {name: [*map(_signature, row.split("|"))] for names, _, row in ROWS for name in names.split()}


def may_raise(operation: str, operands: Sequence[ast.expr], scope: Scope) -> frozenset[str]:
    """The kinds of exceptions that an operation of the table may raise; UNKNOWN for any kind."""
    types = [scope.type_of(node) for node in operands]
    for signature, errors in SIGNATURES.get(operation, ()):
        if len(signature) == len(operands) and all(map(partial(_fits, scope), operands, types, signature)):
            return errors
    return ANYTHING


def _fits(scope: Scope, node: ast.expr, t: Type, said: list[str]) -> bool:
    for word in said:
        if word in OF_VALUE:
            fits = OF_VALUE[word](node, scope)
        elif word in OF_TYPE:
            fits = OF_TYPE[word](t)
        else:  # `texts`: its items are
            fits = OF_TYPE[word[:-1]](_items(t)) if word[:-1] in OF_TYPE else kind(t) == word
        if not fits:
            return False
    return True


def lookup(node: ast.Subscript, scope: Scope) -> frozenset[str]:
    """What asking for an entry or a slice may raise; a new entry of a dict raises nothing."""
    if isinstance(part := node.slice, ast.Slice):
        sliced = kind(scope.type_of(node.value)) in SEQUENCES - {"deque"} and isinstance(node.ctx, ast.Load)
        whole = all(is_int(scope.type_of(p)) for p in (part.lower, part.upper) if p is not None)
        step = part.step is None or int_value(part.step) not in (None, 0)
        return NOTHING if sliced and whole and step else ANYTHING
    errors = may_raise("[]", [node.value, part], scope)
    stores = isinstance(node.ctx, ast.Store) and "KeyError" in errors
    return NOTHING if stores or scope.holds_key(node) else errors


def fits_target(target: ast.expr, t: Type) -> bool:
    """Whether a value of this type surely can be assigned to a target."""
    if isinstance(target, ast.Tuple | ast.List):
        parts = t[1:] if kind(t) == "pair" and isinstance(t, tuple) else ()
        return len(parts) == len(target.elts) and all(map(fits_target, target.elts, parts))  # type: ignore[arg-type]
    return isinstance(target, ast.Name | ast.Subscript | ast.Attribute)
