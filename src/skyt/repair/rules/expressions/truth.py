"""Truth: one form for emptiness, for integers as conditions, and for boolean connectives."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import compare, is_false, is_true, number
from skyt.repair.rules.analysis.values.types import SIZED, is_int, is_str, kind
from skyt.repair.rules.patterns.conditions import boolean, of_kind, sized, truth_only
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression


def _len_argument(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return node.args[0] if len(node.args) == 1 else None
    return None


def _length_truth(node: ast.expr, scope: Scope) -> ast.expr | None:
    subject = _len_argument(node)
    if subject is not None and (is_str(scope.type_of(subject)) or kind(scope.type_of(subject)) in SIZED):
        return subject
    return None


@expression(
    ast.Name,
    ast.BinOp,
    ast.Call,
    ast.Subscript,
    ast.Attribute,
    needs="a value of type int in a place where only its truth counts",
    sound="an int is false exactly when it is 0; a length is 0 exactly when its container is false",
    fires=("n: int", "if n:\n return 1\nreturn 2"),
    keeps=("n: any", "if n:\n return 1\nreturn 2"),
)
def truth_of_integer(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if not boolean or not is_int(scope.type_of(node)):
        return None
    subject = _length_truth(node, scope)
    return subject if subject is not None else compare(node, ast.NotEq, number(0))


@expression(
    ast.BoolOp,
    needs="for dropping what follows a deciding constant: nothing; for nesting: nothing",
    sound="`and` and `or` are associative, True and False are their units and zeros",
    fires=("n: int", "return n < 3 and (n > 1 and n != 2)"),
    keeps=("n: int", "return n < 3 and (n > 1 or n != 2)"),
)
def flatten_boolean(node: ast.BoolOp, scope: Scope, boolean: bool) -> ast.expr | None:
    conjunction = isinstance(node.op, ast.And)
    values: list[ast.expr] = []
    changed = False
    for i, value in enumerate(node.values):
        last = i == len(node.values) - 1
        if isinstance(value, ast.BoolOp) and isinstance(value.op, type(node.op)):
            values += value.values
            changed = True
        elif _is_unit(value, conjunction) and not (last and not boolean) and len(node.values) > 1:
            changed = True
        elif (is_false(value) if conjunction else is_true(value)) and isinstance(
            getattr(value, "value", None), bool
        ):
            values.append(value)
            changed = changed or not last
            break
        else:
            values.append(value)
    if not changed:
        return None
    if not values:
        return ast.Constant(value=conjunction)
    return values[0] if len(values) == 1 else ast.BoolOp(op=node.op, values=values)


def _is_unit(value: ast.expr, conjunction: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is conjunction


FULL = ("len(x) != 0", "len(x) > 0", "0 < len(x)", "len(x) >= 1", "1 <= len(x)")
EMPTY = ("len(x) == 0", "len(x) <= 0", "len(x) < 1", "0 == len(x)")
rewrite(
    "emptiness",
    *((text, "not x") for text in EMPTY),
    *((text, "bool(x)") for text in FULL),
    needs=[sized("x")],
    because="such a value is empty exactly when its length is 0, and exactly then it is false",
    fires=("s: str", "return len(s) == 0"),
    keeps=("s: str", "return len(s) == 1"),
)
for empty, kinds in (("[]", "list"), ("''", "str")):
    rewrite(
        f"empty-{kinds}",
        (f"x == {empty}", "not x"),
        (f"x != {empty}", "bool(x)"),
        needs=[of_kind(kinds, "x")],
        because="a value equals the empty value of its type exactly when it is false",
        fires=("s: str; xs: list[int]", f"x = {kinds}(s)\nreturn x == {empty}"),
        keeps=("s: str; xs: list[int]", f"x = len(s)\nreturn x == {empty}"),
    )
rewrite(
    "truth-of-truth",
    ("bool(x)", "x"),
    needs=[truth_only()],
    because="`bool(x)` is true exactly when x is",
    fires=("s: str", "if bool(s):\n return 1\nreturn 2"),
    keeps=("s: str", "return bool(s)"),
)
rewrite(
    "plain-boolean",
    *((text, "x") for text in ("bool(x)", "x == True", "x is True", "x != False", "x is not False")),
    *((text, "not x") for text in ("x == False", "x is False", "x != True", "x is not True")),
    needs=[boolean("x")],
    because="of a boolean, `bool(x)`, `x is True` and `x == True` are the boolean",
    fires=("n: int", "b = n > 3\nreturn b == True"),
    keeps=("n: int", "return n == True"),
)
