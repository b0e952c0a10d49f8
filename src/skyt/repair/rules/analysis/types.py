"""The names that the rules know, and a small lattice of types, enough to know which operators mean what.

No other builtin, method or module is in the language. Calls have names: `len`, `math.gcd`, `.append`.

A type is a name (`int`, `bool`, `str`, `char` for a string of length one, `float`, `none`, `object:Name`) or
a tuple of a container and its element types. `None` is "no value seen yet", ANY is "could be anything".
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.trees import words
from skyt.text.parsing import parse_expression

# Builtins without effects but their result; they may raise, and read what they are given.
BUILTINS = words(
    "len abs min max sum sorted range enumerate zip reversed str int float bool list tuple set dict "
    "frozenset ord chr isinstance all any repr divmod round pow map filter next"
)
MODULE_MEMBERS: dict[str, frozenset[str]] = {
    "re": words("sub split findall match search fullmatch compile escape"),
    "math": words("sqrt isqrt gcd lcm floor ceil factorial prod comb pi inf"),
    "string": words("ascii_lowercase ascii_uppercase ascii_letters digits punctuation whitespace"),
    "collections": words("OrderedDict deque defaultdict Counter"),
    "itertools": words(
        "groupby combinations accumulate zip_longest chain permutations product takewhile dropwhile"
    ),
    "unicodedata": words("normalize"),
    **dict.fromkeys(words("functools operator heapq bisect"), frozenset[str]()),
}
MEMBERS = frozenset(f"{module}.{name}" for module, names in MODULE_MEMBERS.items() for name in names)

# What gives an iterator, and what goes through one at once.
LAZY = words("map filter zip enumerate reversed") | {m for m in MEMBERS if m.startswith("itertools.")}
CONSUMERS = words(
    "sum any all list tuple set sorted min max dict frozenset next math.prod collections.OrderedDict "
    "collections.deque collections.Counter .join .extend .update"
)

VIEWS = words("keys values items")
QUESTIONS = words(
    "isalnum isalpha isdigit isspace islower isupper isnumeric isdecimal isascii startswith endswith"
)
TEXT_TO_TEXT = words(
    "lower upper strip lstrip rstrip replace join casefold title capitalize swapcase zfill "
    "ljust rjust center removeprefix removesuffix"
)
PURE_METHODS = words(
    "split rsplit splitlines partition find rfind index count get copy group most_common intersection union "
    "difference symmetric_difference issubset issuperset isdisjoint fromkeys maketrans sub "
    "match search fullmatch findall"
).union(VIEWS, QUESTIONS, TEXT_TO_TEXT)
PURE = BUILTINS | MEMBERS | {"." + name for name in PURE_METHODS}
MUTATORS = words(
    "append pop extend insert remove clear sort reverse add discard update popitem move_to_end setdefault "
    "appendleft popleft extendleft rotate"
)

Type = str | tuple[object, ...] | None
ANY: Type = "any"
IMMUTABLE = frozenset({"int", "bool", "str", "char", "float", "none"})
SIZED = frozenset({"list", "dict", "set", "tuple", "deque"})


def called_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULE_MEMBERS:
            return f"{module}.{name}"
        case ast.Attribute(attr=name):
            return "." + name
    return ""


def parse_type(annotation: str | None) -> Type:
    """The type an annotation in a contract names; ANY for what the lattice does not know."""
    try:
        return _parsed(parse_expression(annotation or ""))
    except SyntaxError:
        return ANY


def _parsed(node: ast.expr) -> Type:
    match node:
        case ast.Name(id="int" | "bool" | "str" | "float" as name):
            return name
        case ast.Name(id=name) if name in SIZED - {"dict"}:
            return (name, ANY)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return ("dict", _parsed(key), _parsed(value))
        case ast.Subscript(value=ast.Name(id=name), slice=item) if name in SIZED - {"dict"}:
            return (name, ANY if isinstance(item, ast.Tuple) else _parsed(item))
    return ANY


def join(a: Type, b: Type, depth: int = 6) -> Type:
    """The least type that covers both. Below a `depth` nothing is known: a list in itself has no type."""
    if a == b or b is None:
        return a
    if not depth:
        return ANY
    if a is None:
        return b
    if isinstance(a, str) and isinstance(b, str):
        return "str" if {a, b} == {"char", "str"} else ANY
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0] and len(a) == len(b):
        return (a[0], *(join(x, y, depth - 1) for x, y in zip(a[1:], b[1:], strict=True)))  # type: ignore[arg-type]
    return ANY


def kind(t: Type) -> str:
    """The outermost name of a type; empty where nothing is known."""
    if isinstance(t, tuple):
        return str(t[0])
    return "" if t is None or t == ANY else t


def element(t: Type) -> Type:
    """What iterating over a value of this type gives."""
    if t is None:
        return None
    if isinstance(t, tuple):
        return join(t[1], t[2]) if t[0] == "pair" else t[1]  # type: ignore[return-value,arg-type]
    return "char" if t in {"str", "char"} else ANY


def is_str(t: Type) -> bool:
    return t in {"str", "char"}


def is_int(t: Type) -> bool:
    return t == "int"


def is_number(t: Type) -> bool:
    return t in {"int", "float", "bool"}


def ordered(a: Type, b: Type) -> bool:
    """Whether `<` and `==` on these two are a total order without surprises (no NaN, no own methods)."""
    return (is_int(a) and is_int(b)) or (is_str(a) and is_str(b))


def comparable(a: Type, b: Type) -> bool:
    """Whether `==` between these is symmetric and cannot run user code."""
    return (a in IMMUTABLE and b in IMMUTABLE) or (
        kind(a) in SIZED and kind(a) == kind(b) and all(x in IMMUTABLE for x in (*a[1:], *b[1:]))  # type: ignore[index]
    )


Env = Mapping[str, Type]

# What builtins, methods (with the kind of their owner) and members of modules give, whatever they are given.
ALWAYS: dict[str, Type] = {
    name: gives
    for gives, names in (
        ("int", "len int ord str.find str.index str.count str.rfind list.index list.count"),
        ("int", "math.isqrt math.gcd math.floor math.ceil math.factorial"),
        ("str", "str repr re.sub unicodedata.normalize"),
        ("str", "string.ascii_lowercase string.ascii_letters string.digits string.punctuation"),
        ("str", " ".join(f"str.{method}" for method in TEXT_TO_TEXT)),
        ("bool", " ".join(f"str.{method}" for method in QUESTIONS)),
        ("bool", "bool isinstance any all"),
        ("char", "chr"),
        ("float", "float math.sqrt"),
        (("iter", "int"), "range"),
        (("list", "str"), "str.split str.splitlines"),
        (("list", ANY), "re.split re.findall"),
    )
    for name in names.split()
}
# The same for those where it depends on what they are given: a method's owner comes first.
GIVEN: dict[str, Callable[..., Type]] = {
    "list": lambda items=None: ("list", element(items)),
    "set": lambda items=None: ("set", element(items)),
    "dict": lambda entries=("dict", None, None): entries if kind(entries) == "dict" else ANY,
    "collections.OrderedDict": lambda: ("dict", None, None),
    "collections.deque": lambda: ("deque", None),
    "sorted": lambda items: ("list", element(items)),
    "reversed": lambda items: ("iter", element(items)),
    "enumerate": lambda items, start=None: ("iter", ("pair", "int", element(items))),
    "zip": lambda first, second: ("iter", ("pair", element(first), element(second))),
    "min": lambda first, *more: joined((first, *more)) if more else element(first),
    "max": lambda first, *more: joined((first, *more)) if more else element(first),
    "sum": lambda items: "int" if element(items) in {None, "int", "bool"} else ANY,  # 0 of nothing
    "abs": lambda number: number if number in {None, "int", "float"} else ANY,
    "divmod": lambda a, b: ("pair", "int", "int") if a == b == "int" else ANY,
    "list.copy": lambda whole: whole,
    "list.pop": lambda whole, place=None: element(whole),
    "list.popleft": lambda whole: element(whole),
    "dict.get": lambda whole, key, other="none": join(whole[2], other),
    "dict.setdefault": lambda whole, key, other: join(whole[2], other),
    "dict.pop": lambda whole, key: whole[2],
    "dict.keys": lambda whole: ("iter", whole[1]),
    "dict.values": lambda whole: ("iter", whole[2]),
    "dict.items": lambda whole: ("iter", ("pair", *whole[1:])),
}
METHODS_OF = {"char": "str", "deque": "list"}  # kinds with the methods of another
SIGNED: dict[Type, Type] = {None: None, "int": "int", "bool": "int", "float": "float"}
BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)


@dataclass
class Inference:
    """Types of expressions, from types of variables, attributes and results of own functions."""

    classes: set[str]
    attributes: dict[str, Type]
    results: dict[str, Type]  # functions by name, methods by ".name"

    def of(self, node: ast.expr | None, env: Env) -> Type:
        if node is None:
            return "none"
        form = FORMS.get(node.__class__)
        return form(self, node, env) if form is not None else ANY

    def all(self, nodes: list[ast.expr], env: Env) -> Type:
        return joined([self.of(n, env) for n in nodes])

    def binop(self, node: ast.BinOp, env: Env) -> Type:
        a, b = self.of(node.left, env), self.of(node.right, env)
        if a is None or b is None:
            return None  # no value seen yet: the next round of inference knows more
        return _operated(node.op, a, b, _natural(node.right))

    def attribute(self, node: ast.Attribute, env: Env) -> Type:
        name = called_name(node)
        if name in ALWAYS and node.value.id not in env:  # type: ignore[attr-defined]
            return ALWAYS[name]
        owner = self.of(node.value, env)
        if owner is None:
            return None
        return self.attributes.get(node.attr, ANY) if kind(owner).startswith("object:") else ANY

    def subscript(self, node: ast.Subscript, env: Env) -> Type:
        whole, sliced = self.of(node.value, env), isinstance(node.slice, ast.Slice)
        if is_str(whole):
            return "str" if sliced else "char"
        if kind(whole) in {"list", "tuple", "deque"}:
            return whole if sliced else element(whole)
        if isinstance(whole, tuple) and whole[0] == "dict":
            return whole[2]  # type: ignore[return-value]
        return None if whole is None else ANY

    def call(self, node: ast.Call, env: Env) -> Type:
        name, types = called_name(node.func), [self.of(a, env) for a in node.args]
        if isinstance(node.func, ast.Attribute):
            if name[0] != "." and node.func.value.id not in env:  # type: ignore[attr-defined]
                return _gives(name, types)
            owner = self.of(node.func.value, env)
            if kind(owner).startswith("object:"):
                return self.results.get("." + node.func.attr, ANY)
            whose = METHODS_OF.get(kind(owner), kind(owner))
            return None if owner is None else _gives(f"{whose}.{node.func.attr}", [owner, *types])
        if name in self.results:
            return self.results[name]
        if name in self.classes:
            return "object:" + name
        if name not in ALWAYS and any(k.arg not in {"key", "reverse", "default"} for k in node.keywords):
            return ANY
        default = self.all([k.value for k in node.keywords if k.arg == "default"], env)
        return join(default, _gives(name, types))


def _gives(name: str, types: list[Type]) -> Type:
    if name in ALWAYS:
        return ALWAYS[name]
    try:
        return GIVEN[name](*types) if name in GIVEN else ANY
    except TypeError:  # Python does not know it with so many arguments
        return ANY


FORMS: dict[type, Callable[[Inference, Any, Env], Type]] = {
    ast.Constant: lambda infer, node, env: _constant(node.value),
    ast.Name: lambda infer, node, env: env.get(node.id, ANY),
    ast.JoinedStr: lambda infer, node, env: "str",
    ast.Compare: lambda infer, node, env: "bool",
    ast.BoolOp: lambda infer, node, env: infer.all(node.values, env),
    ast.IfExp: lambda infer, node, env: infer.all([node.body, node.orelse], env),
    ast.UnaryOp: lambda infer, node, env: (
        "bool" if isinstance(node.op, ast.Not) else SIGNED.get(infer.of(node.operand, env), ANY)
    ),
    ast.BinOp: Inference.binop,
    ast.List: lambda infer, node, env: ("list", infer.all(node.elts, env)),
    ast.Set: lambda infer, node, env: ("set", infer.all(node.elts, env)),
    ast.Tuple: lambda infer, node, env: ("tuple", infer.all(node.elts, env)),
    ast.Dict: lambda infer, node, env: (
        ANY if None in node.keys else ("dict", infer.all(node.keys, env), infer.all(node.values, env))
    ),
    ast.ListComp: lambda infer, node, env: ("list", infer.of(node.elt, env)),
    ast.SetComp: lambda infer, node, env: ("set", infer.of(node.elt, env)),
    ast.GeneratorExp: lambda infer, node, env: ("iter", infer.of(node.elt, env)),
    ast.DictComp: lambda infer, node, env: ("dict", infer.of(node.key, env), infer.of(node.value, env)),
    ast.Attribute: Inference.attribute,
    ast.Subscript: Inference.subscript,
    ast.Call: Inference.call,
}


def joined(types: Iterable[Type]) -> Type:
    return reduce(join, types, None)


def _constant(value: object) -> Type:
    if isinstance(value, str):
        return "char" if len(value) == 1 else "str"
    name = "none" if value is None else type(value).__name__
    return name if name in IMMUTABLE else ANY


def _natural(node: ast.expr) -> bool:
    """Whether an expression is by its form an integer that is not negative."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"len", "abs"}
    value = int_value(node)
    return value is not None and value >= 0


def _operated(op: ast.operator, a: Type, b: Type, natural: bool) -> Type:
    """`natural`: the right side is an integer that is not negative."""
    if is_number(a) and is_number(b):
        match op:
            case ast.Div():
                return "float"
            case ast.Pow():
                return "int" if natural and "float" not in (a, b) else ANY
        if a == b == "bool" and isinstance(op, BITWISE):
            return "bool"
        return "float" if "float" in (a, b) else "int"
    match op:
        case ast.Add() if is_str(a) and is_str(b):
            return "str"
        case ast.Add() if kind(a) == kind(b) and kind(a) in {"list", "tuple"}:
            return join(a, b)
        case ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub() if kind(a) == kind(b) == "set":
            return join(a, b)
        case ast.Mult() if is_int(b) and (is_str(a) or kind(a) == "list"):
            return "str" if is_str(a) else a
    return ANY
