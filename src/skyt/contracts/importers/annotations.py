"""Type annotations of a file: names that stand for types, records as typed dicts, and code without them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from skyt.contracts.hints import spec_of_hint
from skyt.contracts.kinds.mappings import RecordSpec
from skyt.contracts.specs import Spec

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPING = ("typing", "typing_extensions", "annotated_types", "pydantic", "__future__", "collections.abc")


class Aliases:
    """Types that a file gives a name to: `Pair = tuple[int, int]`, `class Person(TypedDict)`."""

    def __init__(self, tree: ast.Module) -> None:
        self.types: dict[str, ast.expr] = {}
        self.records: dict[str, ast.ClassDef] = {}
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and _is_type(node.value)
            ):
                self.types[node.targets[0].id] = node.value
            elif isinstance(node, ast.ClassDef) and [ast.unparse(b) for b in node.bases] == ["TypedDict"]:
                self.records[node.name] = node

    def hides(self, node: ast.stmt) -> bool:
        """Whether a statement only serves the annotations, or is read already."""
        if isinstance(node, ast.Assign):
            return ast.unparse(node.targets[0]) in {*self.types, "CONTRACT"}
        if isinstance(node, ast.ImportFrom):
            return node.module in _TYPING
        if isinstance(node, ast.Import):
            return all(alias.name in _TYPING for alias in node.names)
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return docstring or (isinstance(node, ast.ClassDef) and node.name in self.records)

    def resolved(self, hint: ast.expr) -> ast.expr:
        """The hint with names of types replaced by what they stand for."""
        return _Names(self.types).visit(copy.deepcopy(hint))  # type: ignore[no-any-return]

    def spec(self, hint: ast.expr, name: str) -> Spec:
        """The spec of a resolved hint, which may have records in it."""

        def record(type_name: str) -> Spec | None:
            if type_name not in self.records:
                return None
            fields = [node for node in self.records[type_name].body if isinstance(node, ast.AnnAssign)]
            return RecordSpec(
                fields={ast.unparse(f.target): self.spec(self.resolved(f.annotation), name) for f in fields}
            )

        return spec_of_hint(_Annotated(conditions=True).visit(copy.deepcopy(hint)), name, record)

    def predicates(self, hint: ast.expr) -> Iterator[ast.expr]:
        """The conditions of `Predicate(...)` on the parameter itself."""
        if isinstance(hint, ast.Subscript) and _last(hint.value) == "Annotated":
            bounds = hint.slice.elts[1:] if isinstance(hint.slice, ast.Tuple) else []
            yield from (b.args[0] for b in bounds if isinstance(b, ast.Call) and _is_condition(b))


class _Names(ast.NodeTransformer):
    def __init__(self, types: dict[str, ast.expr]) -> None:
        self.types, self.open = types, set[str]()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.types or node.id in self.open:
            return node
        self.open.add(node.id)
        resolved: ast.expr = self.visit(copy.deepcopy(self.types[node.id]))
        self.open.discard(node.id)
        return resolved


class _Annotated(ast.NodeTransformer):
    """Takes bounds out of a hint: all of them, or the conditions, which run in the sandbox."""

    def __init__(self, *, conditions: bool) -> None:
        self.conditions = conditions

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if _last(node.value) != "Annotated" or not isinstance(node.slice, ast.Tuple):
            return node
        first, *bounds = node.slice.elts
        node.slice.elts = [first, *(b for b in bounds if self.conditions and not _is_condition(b))]
        return node if len(node.slice.elts) > 1 else first


def _is_condition(bound: ast.expr) -> bool:
    return isinstance(bound, ast.Call) and _last(bound.func) == "Predicate" and len(bound.args) == 1


def plain(hint: ast.expr) -> str:
    """The text of a hint without bounds."""
    return ast.unparse(_Annotated(conditions=False).visit(copy.deepcopy(hint)))


class _Bare(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: Function) -> ast.stmt:
        self.generic_visit(node)
        node.returns = None
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (a name of ast.NodeVisitor)


def bare(node: ast.stmt, name: str | None = None) -> str:
    """The source of a statement without annotations; a function under another name where one is given."""
    changed = _Bare().visit(copy.deepcopy(node))
    if name is not None:
        changed.name = name
    return ast.unparse(ast.fix_missing_locations(changed))


def _is_type(node: ast.expr) -> bool:
    names = ("Annotated", "list", "dict", "tuple", "set", "frozenset", "Optional", "Union")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return True
    return isinstance(node, ast.Subscript) and _last(node.value) in names


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
