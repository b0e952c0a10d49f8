"""The beginning of a contract in Python: from a function that exists, or from a signature and an example."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from homeostat.core.errors import UserError, nearest, unreadable
from skyt.contracts.importers.annotations import bare
from skyt.text.parsing import parse

Function = ast.FunctionDef | ast.AsyncFunctionDef


def from_answers(signature: str, asks: str, call: str, gives: str) -> str:
    """A file from what a person said: `double(n: int) -> int`, what it does, one call and its result."""
    head = signature.strip().removeprefix("def ").rstrip(":")
    docstring = f'"""{asks.strip()}\n\n>>> {call.strip()}\n{gives.strip()}\n"""'
    return f"def {head}:\n{textwrap.indent(docstring, '    ')}\n"


def from_function(name: str, where: str) -> str:
    """A file around a function that exists, which becomes the reference. Its module is only parsed."""
    module, colon, function = where.rpartition(":")
    if not colon:
        raise UserError(f"--from {where!r}: write it as module:function, for example shop.prices:total")
    path = _source(module)
    try:
        tree = parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: not Python: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    defined = {name: node for node in tree.body for name in _names(node)}
    wanted = defined.get(function)
    if not isinstance(wanted, Function):
        known = [name for name, node in defined.items() if isinstance(node, Function)]
        raise UserError(f"{path} has no function {function!r}; {nearest(function, known)}")
    needed = [bare(node) for node in tree.body if node in _needed(wanted, defined) and node is not wanted]
    reference = bare(_without_docstring(wanted), "reference")
    docstring = ast.get_docstring(wanted) or f"Say here what {name} does.\n\n>>> {name}()"
    stated: Function = ast.parse(ast.unparse(wanted)).body[0]  # type: ignore[assignment]
    stated.name, stated.body, stated.decorator_list = name, [ast.Pass()], []
    quoted = f'"""{docstring.replace(function, name)}\n"""'
    stub = f"{ast.unparse(stated).splitlines()[0]}\n{textwrap.indent(quoted, '    ')}"
    return "\n\n\n".join(["\n".join(needed), stub, reference]).strip() + "\n"


def _source(module: str) -> Path:
    """The file of a module, given by its path or by its dotted name from here."""
    dotted = Path(*module.split("."))
    for path in (Path(module), dotted.with_suffix(".py"), dotted / "__init__.py"):
        if path.is_file():
            return path
    raise UserError(f"no file of the module {module!r} from this folder; give its path: path/to/file.py:name")


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _needed(node: ast.stmt, defined: dict[str, ast.stmt]) -> set[ast.stmt]:
    """The statements of the module that a function uses, directly or not."""
    found, pending = {node}, [node]
    while pending:
        for inner in ast.walk(pending.pop()):
            other = defined.get(inner.id) if isinstance(inner, ast.Name) else None
            if other is not None and other not in found:
                found.add(other)
                pending.append(other)
    return found


def _without_docstring(function: Function) -> Function:
    copy: Function = ast.parse(ast.unparse(function)).body[0]  # type: ignore[assignment]
    if ast.get_docstring(copy) is not None:
        copy.body = copy.body[1:] or [ast.Pass()]
    return copy
