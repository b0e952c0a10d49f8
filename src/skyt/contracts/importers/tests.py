"""A pytest file as a contract: its tests are the oracle of the function that they are about.

The file is read, never imported. Tests that need what the sandbox does not have, or a fixture that is not in
the file, are left out, one line each. The function's own module, where it is found, gives the prompt (the
docstring), the types of its parameters and a solution.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import Any

from homeostat.core.config import parse_config
from homeostat.core.errors import UserError, unreadable
from skyt.contracts.contract import Contract
from skyt.contracts.importers.arguments import literal_calls
from skyt.contracts.importers.lines import Problem
from skyt.contracts.importers.tasks import Imported, parameters_of
from skyt.text.parsing import parse
from skyt.text.trim import trimmed

_PARTS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_tests(path: Path, function: str, offered: Collection[str]) -> list[Imported | Problem]:
    """The contract of `module:name`, after what had to be left out of its tests.

    `offered` are the modules that the sandbox has.
    """
    module, _, name = function.partition(":")
    if not module or not name.isidentifier():
        raise UserError(f"--function {function!r}: write MODULE:NAME, for example shop.prices:total")
    tree = _tree(path)
    problems: list[Imported | Problem] = []
    missing = _missing(tree, module, offered)
    statements: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            statements += (
                [node] if _bound(node).isdisjoint(missing) and not _is_replaced(node, module) else []
            )
            continue
        why = _unfit(node, missing, tree)
        if why and _is_test(node):
            problems.append(
                Problem(f"{path}, line {node.lineno}", f"{getattr(node, 'name', '')} is left out: {why}")
            )
        if not why:
            statements.append(node)
    if not any(_is_test(node) for node in statements):
        problems.append(Problem(str(path), f"no test of {name!r} is left that can be run"))
        return problems
    tests = ast.unparse(ast.Module(_called_by_name(statements, module, name), []))
    return [*problems, _imported(path, module, name, tests)]


def _imported(path: Path, module: str, name: str, tests: str) -> Imported:
    source = _source(path, module)
    tree = ast.Module([], []) if source is None else parse(source)
    found = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if source is not None and found is None:
        raise UserError(f"the module {module!r} has no function {name!r} at its outermost level")
    calls = literal_calls(tests, name)
    if found is None:
        width = max((len(call) for call in calls), default=0)
        found = parse(f"def {name}({', '.join(f'x{i}' for i in range(width))}): pass").body[0]  # type: ignore[assignment]
    assert found is not None  # noqa: S101
    parameters, specs = parameters_of(found, calls)
    solution = "" if source is None else trimmed(source, name)
    raw: dict[str, Any] = {
        "id": f"{module}.{name}",
        "prompt": _prompt(found, name),
        "entry_point": {"kind": "function", "name": name, "parameters": parameters},
        "constraints": {"imports": ["*"]},
        "domain": {"parameters": specs},
        "oracle": {"tests": tests, "solution": solution, "generated": 0, "mutates_arguments": True},
    }
    return Imported(parse_config(Contract, raw, str(path)), solution, str(path))


def _prompt(function: ast.FunctionDef, name: str) -> str:
    about = ast.get_docstring(function)
    signature = f"def {name}({ast.unparse(function.args)})"
    returns = f" -> {ast.unparse(function.returns)}" if function.returns is not None else ""
    asked = f"Write the Python function `{signature}{returns}`."
    return f"{asked}\n\n{about}" if about else asked


def _tree(path: Path) -> ast.Module:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path} is not Python: {getattr(error, 'msg', error)}") from None


def _source(path: Path, module: str) -> str | None:
    """The module under test, beside the tests or where Python would look from here; it is only read."""
    relative = Path(*module.split("."))
    for base in (path.parent, Path.cwd(), path.parent.parent, Path.cwd() / "src", path.parent.parent / "src"):
        for candidate in (base / relative.with_suffix(".py"), base / relative / "__init__.py"):
            if candidate.is_file() and candidate.resolve() != path.resolve():
                return candidate.read_text(encoding="utf-8")
    return None


def _bound(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name.partition(".")[0] for alias in node.names}


def _is_replaced(node: ast.Import | ast.ImportFrom, module: str) -> bool:
    """Whether an import brings the function under test, or pytest: the sandbox has both in another form."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name in (module, "pytest") for name in names)


def _missing(tree: ast.Module, module: str, offered: Collection[str]) -> dict[str, str]:
    """Names that imports bind to what the sandbox does not have, with the module's name."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and not _is_replaced(node, module):
            for alias in node.names:
                source = node.module if isinstance(node, ast.ImportFrom) else alias.name
                if (source or ".") not in offered and source != "__future__":
                    found[alias.asname or alias.name.partition(".")[0]] = source or "a module beside it"
    return found


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, _PARTS) and node.name.lower().startswith("test")


def _unfit(node: ast.stmt, missing: dict[str, str], tree: ast.Module) -> str:
    """Why a statement cannot be run in the sandbox, or nothing."""
    used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    helpers = {n.name: n for n in tree.body if isinstance(n, _PARTS)}
    seen: set[str] = set()
    while new := (used & helpers.keys()) - seen:
        seen |= new
        used |= {part.id for name in new for part in ast.walk(helpers[name]) if isinstance(part, ast.Name)}
    absent = sorted(used & missing.keys())
    if absent:
        return f"it uses {absent[0]!r} from {missing[absent[0]]!r}, which the sandbox does not have"
    if isinstance(node, ast.AsyncFunctionDef):
        return "it is a coroutine"
    for test in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test"):
            needed = {a.arg for a in test.args.args} - {"self"} - _parametrised(test)
            lacking = sorted(name for name in needed if name not in helpers)
            if lacking:
                return f"it needs the fixture {lacking[0]!r}, which is not in the file"
    return ""


def _parametrised(test: ast.FunctionDef) -> set[str]:
    names: set[str] = set()
    for mark in test.decorator_list:
        if (
            isinstance(mark, ast.Call)
            and isinstance(mark.func, ast.Attribute)
            and mark.func.attr == "parametrize"
        ):
            first = mark.args[0] if mark.args else None
            parts = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            texts = [
                part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            names |= {name.strip() for text in texts for name in text.split(",")}
    return names


def _called_by_name(body: list[ast.stmt], module: str, name: str) -> list[ast.stmt]:
    """`module.name` becomes `name`: there is no module where the tests run."""

    class Rename(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            plain = ast.unparse(node)
            last = f"{module.rpartition('.')[2]}.{name}"
            if plain in (f"{module}.{name}", last):
                return ast.copy_location(ast.Name(name, node.ctx), node)
            self.generic_visit(node)
            return node

    return [Rename().visit(node) for node in body]
