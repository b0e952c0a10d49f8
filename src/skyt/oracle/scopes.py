"""Which names of a program are its own, and which attributes belong to its own classes."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator, Set

from skyt.text.parsing import symbols

_NAMED = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.ExceptHandler
)


def builtin_names(tree: ast.Module, watched: Set[str], innocent: Set[int]) -> set[int]:
    """The uses (by node) of watched names that may be the builtins of those names.

    A use inside a function is the program's own if the function or one around it binds the name, or if a
    statement of the module does, unconditionally and for good. A use that runs with the module, or with the
    body of a class, must come after the binding, in the same block or one around it.
    """
    uses = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id in watched
        and isinstance(node.ctx, ast.Load)
        and id(node) not in innocent
    ]
    if not uses:
        return set()
    table = symbols(ast.unparse(tree))
    if table is None:  # does not compile, so nothing in it is known
        return {id(node) for node in uses}
    order = _Order(watched)
    known: set[str] = set()
    order.run(tree.body, known)
    bound = known - {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    outward = _outward(table)
    return {
        id(node)
        for node in uses
        if id(node) in order.unbound
        or (id(node) not in order.bound and node.id in outward and node.id not in bound)
    }


class _Order:
    """Follows a module as it runs, to tell names that have been bound by then from those that have not."""

    def __init__(self, watched: Set[str]) -> None:
        self.watched = watched
        self.bound: set[int] = set()
        self.unbound: set[int] = set()

    def run(self, body: list[ast.stmt], known: set[str]) -> None:
        """Run a block; the names it binds for good are added to `known`."""
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read([*statement.decorator_list, statement.args, statement.returns], known)
                known |= {statement.name} & self.watched
            elif isinstance(statement, ast.ClassDef):
                self._read([*statement.decorator_list, *statement.bases, *statement.keywords], known)
                self.run(statement.body, set(known))
                known |= {statement.name} & self.watched
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                names = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
                known |= names & self.watched
            else:
                self._other(statement, known)

    def _other(self, statement: ast.stmt, known: set[str]) -> None:
        blocks = [
            part
            for _, part in ast.iter_fields(statement)
            if isinstance(part, list)
            and part
            and isinstance(part[0], ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
        inside = {id(node) for block in blocks for node in block}
        self._read([node for node in ast.iter_child_nodes(statement) if id(node) not in inside], known)
        bound = {
            node.id
            for node in _runs_at_once(statement, inside)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self.watched
        }
        if not blocks:
            known |= bound
        for block in blocks:
            for node in block:
                if isinstance(node, ast.ExceptHandler | ast.match_case):
                    held = node.type if isinstance(node, ast.ExceptHandler) else node.guard
                    self._read([held], known)
                    self.run(node.body, known | bound)
            if isinstance(block[0], ast.stmt):
                self.run(block, known | bound)

    def _read(self, nodes: Iterable[ast.AST | None], known: set[str]) -> None:
        for root in nodes:
            for node in _runs_at_once(root) if root is not None else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.watched:
                    (self.bound if node.id in known else self.unbound).add(id(node))


def _runs_at_once(root: ast.AST, without: Set[int] = frozenset()) -> Iterator[ast.AST]:
    """An expression or a statement without the bodies of functions, and without these nodes."""
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in without:
            continue
        yield node
        if isinstance(node, ast.Lambda):
            pending.append(node.args)
        else:
            pending += ast.iter_child_nodes(node)


def _outward(table: symtable.SymbolTable) -> set[str]:
    """Names that some function looks up in the module or among the builtins.

    The body of a class inside a function looks there, too, for names that it has not bound yet.
    """
    found: set[str] = set()
    pending = [(table, False)]
    while pending:
        scope, in_function = pending.pop()
        in_class = in_function and scope.get_type() == "class"
        found |= {
            s.get_name() for s in scope.get_symbols() if s.is_referenced() and (in_class or s.is_global())
        }
        inside = in_function or scope.get_type() == "function"
        pending += [(child, inside) for child in scope.get_children()]
    return found


class Classes:
    """The program's own classes and the attributes that their objects are sure to find there."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        given = _given(tree)
        once = [node for node in nodes if given[node.name] == [None]]
        self._attributes = {node.name: _attributes(node) for node in once}
        self._bases = {node.name: [b.id for b in node.bases if isinstance(b, ast.Name)] for node in once}
        self._receivers = self._first_parameters(once)
        # Variables that are given nothing but new objects of one class, anywhere in the program.
        self._variables = {
            name: kinds[0]
            for name, kinds in given.items()
            if kinds[0] in self._attributes and all(kind == kinds[0] for kind in kinds)
        }

    def own(self, receiver: ast.expr, attribute: str) -> bool:
        """Whether an attribute of this receiver is one that a class of the program defines."""
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name):
            return self._defines(receiver.func.id, attribute)
        if not isinstance(receiver, ast.Name):
            return False
        name = self._receivers.get(id(receiver)) or self._variables.get(receiver.id) or receiver.id
        return self._defines(name, attribute)

    def _defines(self, name: str, attribute: str) -> bool:
        seen: set[str] = set()
        pending = [name]
        while pending:
            name = pending.pop()
            if name in self._attributes and name not in seen:
                seen.add(name)
                if attribute in self._attributes[name]:
                    return True
                pending += self._bases[name]
        return False

    def _first_parameters(self, classes: list[ast.ClassDef]) -> dict[int, str]:
        """Uses of `self` (whatever its name) in methods that never give it another value."""
        found: dict[int, str] = {}
        for node in classes:
            for method in node.body:
                if not isinstance(method, ast.FunctionDef) or not method.args.args or method.decorator_list:
                    continue
                me = method.args.args[0].arg
                uses = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == me]
                nested = [n for n in ast.walk(method) if isinstance(n, ast.arg) and n.arg == me]
                if len(nested) == 1 and all(isinstance(use.ctx, ast.Load) for use in uses):
                    found |= {id(use): node.name for use in uses}
        return found


def _given(tree: ast.Module) -> dict[str, list[str | None]]:
    """What each name is given anywhere in the program: the function called in `name = C(...)`, else None."""
    given: dict[str, list[str | None]] = {}
    counted: set[int] = set()
    for node in ast.walk(tree):
        name: str | None = None
        made: str | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            counted.add(id(node.targets[0]))
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
                made = node.value.func.id
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in counted:
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.alias):
            name = node.asname or node.name
        elif isinstance(node, _NAMED):
            name = node.name
        if name is not None:
            given.setdefault(name, []).append(made)
    return given


def _attributes(node: ast.ClassDef) -> set[str]:
    """Methods, class variables, and what methods assign to attributes of their first parameter."""
    found: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(statement.name)
            me = statement.args.args[0].arg if statement.args.args else ""
            for inner in ast.walk(statement):
                if (
                    isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and isinstance(inner.value, ast.Name)
                    and inner.value.id == me
                ):
                    found.add(inner.attr)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found
