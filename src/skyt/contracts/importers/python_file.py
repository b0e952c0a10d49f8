"""A contract written as a Python file: a typed function, its docstring the prompt, its doctests the cases.

    def fibonacci(n: Annotated[int, Ge(0)]) -> int:
        \"\"\"The nth Fibonacci number.

        >>> fibonacci(10)
        55
        \"\"\"

    def reference(n): ...                            optional: what is right for every other call
    def property_never_negative(n, result): ...      optional: assertions about every result
    def where(n): ...                                optional: a precondition, true of every call
    CONTRACT = {"constraints": {"imports": ["math"]}}  optional: any other part of a contract

The file is parsed and never imported. Whatever else it defines goes into the sandbox with the reference,
the properties and the precondition, without type annotations.
"""

from __future__ import annotations

import ast
import copy
import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homeostat.core.config import parse_config
from homeostat.core.errors import UserError, unreadable
from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, in_domain
from skyt.contracts.hints import HintError
from skyt.contracts.importers.annotations import Aliases, Function, bare, plain
from skyt.contracts.literals import literal, read_literal
from skyt.text.parsing import parse, parse_expression

PROPERTY = "property_"
_GENERATORS = ("Iterator", "Generator")


def read_python(path: Path) -> Contract:
    """Read and check one contract file in Python."""
    try:
        return python_contract(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None


def python_contract(text: str, path: str) -> Contract:
    """The contract that a text in Python states."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        raise UserError(f"{path}, line {line}: not Python: {getattr(error, 'msg', error)}") from None
    try:
        raw = _File(tree).raw()
        contract = parse_config(Contract, raw, source=path)
        outside = [case for case in contract.oracle.cases if not in_domain(contract, Call.of(case))]
        if outside:  # doctests of calls that the bounds exclude say what must happen there
            raw["oracle"]["cases"] = [case for case in contract.oracle.cases if case not in outside]
            raw["out_of_domain"] = {"policy": "specified", "calls": outside}
            contract = parse_config(Contract, raw, source=path)
        return contract
    except _MistakeError as mistake:
        raise UserError(f"{path}, line {mistake.line}: {mistake}") from None


class _MistakeError(Exception):
    def __init__(self, node: ast.AST | int, message: str) -> None:
        super().__init__(message)
        self.line = node if isinstance(node, int) else getattr(node, "lineno", 1)


class _File:
    """The parts of a contract file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.aliases = Aliases(tree)
        functions = {n.name: n for n in tree.body if isinstance(n, Function)}
        self.reference, self.where = functions.pop("reference", None), functions.pop("where", None)
        self.properties = [functions.pop(name) for name in list(functions) if name.startswith(PROPERTY)]
        public = [f for name, f in functions.items() if not name.startswith("_")]
        stated = [f for f in public if ast.get_docstring(f)]
        if len(stated) != 1:
            found = ", ".join(f.name for f in stated) or "none"
            raise _MistakeError(1, f"one function with a docstring is the contract's; found: {found}")
        self.function: Function = stated[0]
        if self.reference is None and _has_body(self.function):
            self.reference = self.function
        a = self.function.args
        self.arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs]

    def raw(self) -> dict[str, Any]:
        """The contract as it would stand in YAML."""
        entry, function = self._entry(), self.function
        cases = list(self._cases())
        properties = [self._property(prop) for prop in self.properties]
        if self.reference is not None:
            source = f"{self._setup()}\n{bare(self.reference, function.name)}"
            properties.insert(0, {"name": "reference", "reference": source})
        oracle: dict[str, Any] = {"cases": cases, "properties": properties}
        domain: dict[str, Any] = {"parameters": self._specs()}
        conditions = list(self._conditions())
        if conditions:
            domain |= {"where": " and ".join(conditions), "setup": self._setup(self.where)}
        raw: dict[str, Any] = {
            "id": function.name,
            "prompt": self._prompt(),
            "entry_point": entry,
            "domain": domain,
            "oracle": oracle,
        }
        return _laid_over(raw, self._more())

    def _entry(self) -> dict[str, Any]:
        function, a = self.function, self.function.args
        if a.vararg or a.kwarg:
            raise _MistakeError(function, f"{function.name} has a starred parameter, which no contract has")
        placed = [*a.posonlyargs, *a.args]
        defaults: list[ast.expr | None] = [None] * (len(placed) - len(a.defaults)) + list(a.defaults)
        rows = [*zip(placed, defaults, strict=True), *zip(a.kwonlyargs, a.kw_defaults, strict=True)]
        parameters = [
            {
                "name": arg.arg,
                "type": plain(self._hint(arg)),
                "default": None if default is None else ast.unparse(default),
                "keyword_only": arg in a.kwonlyargs,
            }
            for arg, default in rows
        ]
        returns = None if function.returns is None else self.aliases.resolved(function.returns)
        gives = "coroutine" if isinstance(function, ast.AsyncFunctionDef) else "value"
        if isinstance(returns, ast.Subscript) and ast.unparse(returns.value).endswith(_GENERATORS):
            gives = "generator"
        return {
            "kind": "function",
            "name": function.name,
            "parameters": parameters,
            "returns": None if returns is None else plain(returns),
            "gives": gives,
        }

    def _hint(self, arg: ast.arg) -> ast.expr:
        if arg.annotation is None:
            raise _MistakeError(arg, f"the parameter {arg.arg!r} needs a type hint")
        return self.aliases.resolved(arg.annotation)

    def _specs(self) -> dict[str, Any]:
        specs = {}
        for arg in self.arguments:
            try:
                specs[arg.arg] = self.aliases.spec(self._hint(arg), arg.arg).model_dump()
            except HintError as error:
                raise _MistakeError(arg, str(error)) from None
        return specs

    def _prompt(self) -> str:
        """The signature without bounds, and the docstring."""
        function = copy.deepcopy(self.function)
        a = function.args
        for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs):
            arg.annotation = parse_expression(plain(self._hint(arg)))
        if function.returns is not None:
            function.returns = parse_expression(plain(self.aliases.resolved(function.returns)))
        function.body = [ast.Pass()]
        header = ast.unparse(function).splitlines()[0].rstrip(":")
        return (
            f"Write a Python function called '{function.name}', `{header}`.\n\n"
            f"{ast.get_docstring(self.function)}"
        )

    def _conditions(self) -> Iterator[str]:
        for arg in self.arguments:
            for predicate in self.aliases.predicates(self._hint(arg)):
                yield f"({ast.unparse(predicate)})({arg.arg})"
        if self.where is not None:
            yield f"where({', '.join(arg.arg for arg in self.where.args.args)})"

    def _property(self, function: Function) -> dict[str, Any]:
        names = [arg.arg for arg in function.args.args]
        if "result" not in names:
            raise _MistakeError(function, f"{function.name} needs the parameter 'result'")
        own = function.name.removeprefix(PROPERTY)
        setup = self._setup() + "\n" + bare(function, own)
        name = (ast.get_docstring(function) or own.replace("_", " ")).splitlines()[0].rstrip(".")
        return {"name": name, "setup": setup, "holds": f"{own}({', '.join(names)}) in (None, True)"}

    def _setup(self, *functions: Function | None) -> str:
        """What the file defines besides, as source for the sandbox."""
        special = {self.function, self.reference, self.where, *self.properties}
        parts = [
            bare(node) for node in self.tree.body if node not in special and not self.aliases.hides(node)
        ]
        return "\n".join([*filter(None, parts), *(bare(f) for f in functions if f is not None)])

    def _cases(self) -> Iterator[dict[str, Any]]:
        docstring = ast.get_docstring(self.function, clean=False) or ""
        try:
            examples = doctest.DocTestParser().get_examples(docstring)
        except ValueError as error:
            raise _MistakeError(self.function, f"the doctests cannot be read: {error}") from None
        for example in examples:
            yield self._case(example, self.function.lineno + 1 + example.lineno)

    def _case(self, example: doctest.Example, line: int) -> dict[str, Any]:
        shown = example.source.strip()
        call = self._call(shown)
        if call is None:
            raise _MistakeError(line, f"the doctest {shown!r} is not a call of {self.function.name}")
        try:
            case: dict[str, Any] = {
                "args": tuple(literal(arg) for arg in call.args),
                "kwargs": {str(k.arg): literal(k.value) for k in call.keywords},
            }
            if example.exc_msg is not None:
                case["raises"] = example.exc_msg.partition(":")[0].strip().rpartition(".")[2]
            else:
                case["returns"] = read_literal(example.want) if example.want.strip() else None
        except ValueError as error:
            raise _MistakeError(line, f"the doctest {shown!r}: {error}") from None
        return case

    def _call(self, shown: str) -> ast.Call | None:
        """The call of the function; `list(...)` and `asyncio.run(...)` around it are how it is shown."""
        try:
            node = parse_expression(shown)
        except SyntaxError:
            return None
        while isinstance(node, ast.Call) and ast.unparse(node.func) in ("list", "asyncio.run"):
            if len(node.args) != 1 or node.keywords:
                return None
            node = node.args[0]
        named = isinstance(node, ast.Call) and ast.unparse(node.func) == self.function.name
        return node if isinstance(node, ast.Call) and named else None

    def _more(self) -> dict[str, Any]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONTRACT":
                try:
                    more = literal(node.value)
                except ValueError as error:
                    raise _MistakeError(node, f"CONTRACT: {error}") from None
                if not isinstance(more, dict):
                    raise _MistakeError(node, "CONTRACT is a dict of parts of a contract")
                return more
        return {}


def _has_body(function: Function) -> bool:
    """Whether the function does anything: a docstring, `...`, `pass` and NotImplementedError do not count."""
    for statement in function.body:
        text = ast.unparse(statement)
        constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not constant and text != "pass" and not text.startswith("raise NotImplementedError"):
            return True
    return False


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _laid_over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
