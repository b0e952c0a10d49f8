"""Types of expressions: what each operator, builtin and method gives back for operands of known types."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.values.types import ANY, Type, element, is_int, is_number, is_str, join, kind

Env = Mapping[str, Type]
SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)


STR_TO_STR = frozenset(
    [
        *(
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "replace",
            "join",
            "casefold",
            "title",
            "capitalize",
        ),
        *(
            "swapcase",
            "translate",
            "format",
            "zfill",
            "ljust",
            "rjust",
            "center",
            "removeprefix",
            "removesuffix",
        ),
    ]
)
STR_TO_BOOL = frozenset(
    [
        *("isalnum", "isalpha", "isdigit", "isspace", "islower", "isupper", "isnumeric", "isdecimal"),
        *("startswith", "endswith", "isidentifier", "isascii"),
    ]
)
BUILTIN_TYPES: dict[str, Type] = {
    **dict.fromkeys(("len", "int", "ord"), "int"),
    **dict.fromkeys(("str", "repr"), "str"),
    **dict.fromkeys(("bool", "isinstance", "any", "all"), "bool"),
    "chr": "char",
    "float": "float",
    "range": ("iter", "int"),
}
MODULE_TYPES: dict[str, Type] = {
    **dict.fromkeys((f"math.{name}" for name in ("isqrt", "gcd", "floor", "ceil", "factorial")), "int"),
    **dict.fromkeys(
        (f"string.{n}" for n in ("ascii_lowercase", "ascii_letters", "digits", "punctuation")), "str"
    ),
    **dict.fromkeys(("re.sub", "unicodedata.normalize"), "str"),
    **dict.fromkeys(("re.split", "re.findall"), ("list", ANY)),
    "math.sqrt": "float",
    "math.prod": ANY,
    "collections.OrderedDict": ("dict", None, None),
    "collections.deque": ("deque", None),
}


def dotted(node: ast.expr) -> str:
    """`module.name` of an attribute of a plain name, else empty."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _natural(node: ast.expr) -> bool:
    """Whether an expression is by its form an integer that is not negative."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"len", "abs"}
    return (int_value(node) or 0) > 0 or int_value(node) == 0


class Inference:
    """Types of expressions, given types of variables, attributes, and results of the program's own
    functions."""

    def __init__(self) -> None:
        self.attributes: dict[str, Type] = {}
        self.results: dict[str, Type] = {}  # functions by name, methods by ".name"
        self.classes: set[str] = set()

    def of(self, node: ast.expr | None, env: Env) -> Type:
        if node is None:
            return "none"
        method = getattr(self, "_" + node.__class__.__name__.lower(), None)
        return method(node, env) if method is not None else ANY

    def _constant(self, node: ast.Constant, env: Env) -> Type:
        value = node.value
        if isinstance(value, str):
            return "char" if len(value) == 1 else "str"
        name = "none" if value is None else type(value).__name__
        return name if name in {"none", "int", "bool", "float"} else ANY

    def _name(self, node: ast.Name, env: Env) -> Type:
        return env.get(node.id, ANY)

    def _joinedstr(self, node: ast.JoinedStr, env: Env) -> Type:
        return "str"

    def _compare(self, node: ast.Compare, env: Env) -> Type:
        return "bool"

    def _boolop(self, node: ast.BoolOp, env: Env) -> Type:
        result: Type = None
        for value in node.values:
            result = join(result, self.of(value, env))
        return result

    def _ifexp(self, node: ast.IfExp, env: Env) -> Type:
        return join(self.of(node.body, env), self.of(node.orelse, env))

    def _unaryop(self, node: ast.UnaryOp, env: Env) -> Type:
        if isinstance(node.op, ast.Not):
            return "bool"
        inner = self.of(node.operand, env)
        if inner is None:
            return None
        return inner if inner in {"int", "float"} else "int" if inner == "bool" else ANY

    def _binop(self, node: ast.BinOp, env: Env) -> Type:
        a, b = self.of(node.left, env), self.of(node.right, env)
        if a is None or b is None:
            return None  # no value seen yet: the next round of inference knows more
        op = node.op
        if is_number(a) and is_number(b):
            if isinstance(op, ast.Div):
                return "float"
            if "float" in (a, b):
                return "float" if not isinstance(op, ast.Pow) else ANY
            if isinstance(op, ast.Pow):
                return "int" if _natural(node.right) else ANY
            both_bool = a == b == "bool" and isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
            return "bool" if both_bool else "int"
        if isinstance(op, ast.Add):
            if is_str(a) and is_str(b):
                return "str"
            if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0] and a[0] in {"list", "tuple"}:
                return join(a, b)
        if isinstance(op, SET_OPERATORS) and kind(a) == kind(b) == "set":
            return join(a, b)
        if isinstance(op, ast.Mult):
            if is_str(a) and is_int(b):
                return "str"
            if kind(a) == "list" and is_int(b):
                return a
        return "str" if isinstance(op, ast.Mod) and is_str(a) else ANY

    def _list(self, node: ast.List, env: Env) -> Type:
        return ("list", self._joined(node.elts, env))

    def _set(self, node: ast.Set, env: Env) -> Type:
        return ("set", self._joined(node.elts, env))

    def _tuple(self, node: ast.Tuple, env: Env) -> Type:
        return ("tuple", self._joined(node.elts, env))

    def _dict(self, node: ast.Dict, env: Env) -> Type:
        if any(k is None for k in node.keys):
            return ANY
        return ("dict", self._joined([k for k in node.keys if k], env), self._joined(node.values, env))

    def _listcomp(self, node: ast.ListComp, env: Env) -> Type:
        return ("list", self.of(node.elt, env))

    def _setcomp(self, node: ast.SetComp, env: Env) -> Type:
        return ("set", self.of(node.elt, env))

    def _generatorexp(self, node: ast.GeneratorExp, env: Env) -> Type:
        return ("iter", self.of(node.elt, env))

    def _dictcomp(self, node: ast.DictComp, env: Env) -> Type:
        return ("dict", self.of(node.key, env), self.of(node.value, env))

    def _attribute(self, node: ast.Attribute, env: Env) -> Type:
        if dotted(node) in MODULE_TYPES and isinstance(node.value, ast.Name) and node.value.id not in env:
            return MODULE_TYPES[dotted(node)]
        owner = self.of(node.value, env)
        if owner is None:
            return None
        return self.attributes.get(node.attr, ANY) if kind(owner).startswith("object:") else ANY

    def _subscript(self, node: ast.Subscript, env: Env) -> Type:
        whole = self.of(node.value, env)
        if whole is None:
            return None
        if isinstance(node.slice, ast.Slice):
            return "str" if is_str(whole) else whole if kind(whole) in {"list", "tuple"} else ANY
        if is_str(whole):
            return "char"
        if kind(whole) == "dict":
            return whole[2]  # type: ignore[return-value]
        return element(whole) if kind(whole) in {"list", "tuple", "deque"} else ANY

    def _call(self, node: ast.Call, env: Env) -> Type:
        function, args = node.func, node.args
        if isinstance(function, ast.Name):
            return self._function(function.id, args, node.keywords, env)
        if not isinstance(function, ast.Attribute):
            return ANY
        if dotted(function) in MODULE_TYPES and function.value.id not in env:  # type: ignore[attr-defined]
            made = ANY if args and dotted(function).startswith("collections.") else None
            return made or MODULE_TYPES[dotted(function)]
        return self._method(self.of(function.value, env), function.attr, args, env)

    def _function(self, name: str, args: list[ast.expr], keywords: list[ast.keyword], env: Env) -> Type:
        if name in self.results:
            return self.results[name]
        if name in self.classes:
            return "object:" + name
        if name in BUILTIN_TYPES:
            return BUILTIN_TYPES[name]
        first = self.of(args[0], env) if args else None
        if name in {"list", "sorted"}:
            return ("list", element(first) if args else None)
        if name in {"set", "tuple", "reversed"}:
            return ("iter" if name == "reversed" else name, element(first) if args else None)
        if any(k.arg not in {"key", "reverse", "strict", "default"} for k in keywords):
            return ANY
        if name == "dict" and (not args or kind(first) == "dict"):
            return first if args else ("dict", None, None)
        if name == "enumerate" and args:
            return ("iter", ("pair", "int", element(first)))
        if name == "zip" and len(args) == 2:
            return ("iter", ("pair", element(first), element(self.of(args[1], env))))
        if name == "divmod" and len(args) == 2:
            second = self.of(args[1], env)
            if first is None or second is None:
                return None
            return ("pair", "int", "int") if is_int(first) and is_int(second) else ANY
        if name == "abs":
            return first if first in {"int", "float", None} else ANY
        if name == "sum" and len(args) == 1:
            item = element(first)
            return None if item is None else "int" if item in {"int", "bool"} else ANY
        if name in {"min", "max"} and args:
            default = self._joined([k.value for k in keywords if k.arg == "default"], env)
            return join(default, element(first)) if len(args) == 1 else self._joined(args, env)
        return ANY

    def _method(self, owner: Type, name: str, args: list[ast.expr], env: Env) -> Type:
        if owner is None:
            return None
        if is_str(owner):
            if name in STR_TO_STR:
                return "str"
            if name in STR_TO_BOOL:
                return "bool"
            if name in {"split", "splitlines"}:
                return ("list", "str")
            return "int" if name in {"find", "index", "count", "rfind"} else ANY
        k = kind(owner)
        if k.startswith("object:"):
            return self.results.get("." + name, ANY)
        if k in {"list", "deque"}:
            if name in {"pop", "popleft"}:
                return element(owner)
            if name == "copy":
                return owner
            return "int" if name in {"index", "count"} else "none" if name in {"append", "extend"} else ANY
        if k == "dict" and isinstance(owner, tuple):
            if name == "get" and args:
                return join(owner[2], self.of(args[1], env) if len(args) > 1 else "none")  # type: ignore[arg-type]
            if name == "pop" and len(args) == 1:
                return owner[2]  # type: ignore[return-value]
            if name == "items":
                return ("iter", ("pair", owner[1], owner[2]))
            if name == "setdefault" and len(args) == 2:
                return join(owner[2], self.of(args[1], env))  # type: ignore[arg-type]
            return {"keys": ("iter", owner[1]), "values": ("iter", owner[2])}.get(name, ANY)
        return ANY

    def _joined(self, nodes: list[ast.expr], env: Env) -> Type:
        result: Type = None
        for node in nodes:
            result = join(result, self.of(node, env))
        return result
