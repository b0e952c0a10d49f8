"""Effects: what an expression or statement reads, writes and may raise, so that rules know what may move
past what.

Every kind of node has an entry in a table; one without an entry does everything. The heap is divided by
roots: `stack.append(x)` writes the object that `stack` names. A root that its function owns (made there,
never handed out) can only be reached by that name; all other roots may be the same object. Attributes are
divided by their names: `a.x` and `b.y` are never the same place, `a.x` and `b.x` may be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.effects.commuting import ATTRIBUTES, Effects
from skyt.repair.rules.analysis.effects.vocabulary import UNKNOWN
from skyt.repair.rules.analysis.trees.trees import children, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

Entry = Callable[[Any, "Scope", Effects], None]
ENTRIES: dict[type, Entry] = {}  # by kind of node; filled in `nodes.py`


def effects(node: ast.AST | Sequence[ast.AST], scope: Scope) -> Effects:
    """The effects of an expression, a statement or a list of them, insides included."""
    found = Effects()
    for item in [node] if isinstance(node, ast.AST) else node:
        add(item, scope, found)
    if not found.pure and scope.known:  # what held before may not hold any more within
        later = scope.without(found)
        if later is not scope:
            return effects(node, later)
    return found


def test_effects(node: ast.expr, scope: Scope) -> Effects:
    """The effects of asking whether an expression is true: a container is read to see whether it is empty."""
    found = effects(node, scope)
    glance(node, scope, found)
    return found


def root(node: ast.expr) -> str:
    """The name under which the heap object of this expression is reached; UNKNOWN if it is not a plain
    name.
    """
    return node.id if isinstance(node, ast.Name) else UNKNOWN


def add(node: ast.AST, scope: Scope, found: Effects) -> None:
    ENTRIES.get(node.__class__, everything)(node, scope, found)


def parts(node: ast.AST, scope: Scope, found: Effects) -> None:
    for child in children(node):
        add(child, scope, found)


def everything(node: ast.AST, scope: Scope, found: Effects) -> None:
    names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
    found.reads |= names
    found.writes |= names
    found.heap_reads |= names | {UNKNOWN, ATTRIBUTES}
    found.heap_writes |= names | {UNKNOWN, ATTRIBUTES}
    found.fails()
    found.other = found.jumps = True


def read(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking into a value: its own parts, and those of its elements where they can change."""
    t = scope.type_of(node)
    if t in IMMUTABLE:
        return
    found.heap_reads.add(root(node))
    if not (isinstance(t, tuple) and all(map(_flat, t[1:]))):
        found.heap_reads |= {UNKNOWN, ATTRIBUTES}


def glance(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking at a value's own parts, and not into them."""
    if scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))


def _flat(t: Any) -> bool:
    return t is None or t in IMMUTABLE or (kind(t) in {"pair", "tuple"} and all(map(_flat, t[1:])))


def truth(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Asking a container whether it is empty reads it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        glance(node, scope, found)
