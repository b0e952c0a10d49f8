"""Tasks of EvalPlus (HumanEval+, MBPP+) and of the original HumanEval as contracts.

The canonical solution is the reference, and results are compared as EvalPlus compares them. EvalPlus brings
its inputs along, and they alone judge; the few calls in the tests of the original HumanEval are joined by
drawn ones. A solution may import whatever the sandbox has.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat.core.config import parse_config
from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract
from skyt.contracts.hints import HintError, spec_of
from skyt.contracts.importers.arguments import literal_calls, restored
from skyt.contracts.importers.lines import Problem, lines
from skyt.contracts.importers.rules import judged_by
from skyt.text.parsing import parse

_NEEDED = ("task_id", "prompt", "entry_point", "canonical_solution")
_DRAWN = 200  # inputs that are drawn to judge a task that brings few of its own
_SECONDS = 20.0  # of CPU time for all inputs together


@dataclass(frozen=True)
class Imported:
    """A contract, the program that must pass it, and where it comes from."""

    contract: Contract
    reference: str
    where: str


def read_tasks(path: Path) -> Iterator[Imported | Problem]:
    """The tasks of a file in order; what cannot become a contract comes as a `Problem`."""
    seen: set[str] = set()
    for where, row in lines(path):
        if isinstance(row, Problem):
            yield row
            continue
        try:
            imported = _imported(row, where)
        except (UserError, SyntaxError, ValueError) as error:
            yield Problem(f"{where} ({row.get('task_id', 'no task_id')})", " ".join(str(error).split()))
            continue
        if imported.contract.id in seen:
            yield Problem(where, f"a second task {row['task_id']!r}; the first one is kept")
            continue
        seen.add(imported.contract.id)
        yield imported


def _imported(task: dict[str, Any], where: str) -> Imported:
    for name in _NEEDED:
        if not isinstance(task.get(name), str):
            what = "is missing" if name not in task else f"is {task[name]!r:.40}, not text"
            raise ValueError(f"{name!r} {what}; a task has {', '.join(_NEEDED)}")
    function = _function(task)
    inputs, atol = _inputs(task)
    parameters, specs = parameters_of(function, inputs)
    reference = task["prompt"] + task["canonical_solution"]
    raw = {
        "id": task["task_id"].replace("/", "_"),
        "prompt": task["prompt"],
        "entry_point": {
            "kind": "function",
            "name": task["entry_point"],
            "parameters": parameters,
            "returns": None if function.returns is None else ast.unparse(function.returns),
        },
        "constraints": {"imports": ["*"]},
        "domain": {"parameters": specs, **_preconditions(task, function)},
        "oracle": {
            "inputs": [{"args": arguments} for arguments in inputs],
            "properties": [judged_by(task, [p["name"] for p in parameters], reference, atol)],
            "generated": 0 if "plus_input" in task else _DRAWN,
            "mutates_arguments": True,
            "equality": "python",
            "atol": atol,
            "seconds": _SECONDS,
        },
    }
    return Imported(parse_config(Contract, raw, "the task"), reference, where)


def _function(task: dict[str, Any]) -> ast.FunctionDef:
    try:
        tree = parse(task["prompt"] + task["canonical_solution"])
    except SyntaxError as error:
        raise ValueError(f"prompt and canonical solution are not Python: {error.msg}") from None
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == task["entry_point"]:
            return node
    raise ValueError(f"prompt and canonical solution define no function {task['entry_point']!r}")


def _inputs(task: dict[str, Any]) -> tuple[list[list[Any]], float]:
    """The inputs in the order in which they are tried, without repeats, and the tolerance."""
    if "base_input" in task:
        rows = [*task["base_input"], *task.get("plus_input", [])]
        if not all(isinstance(arguments, list) for arguments in rows):
            raise ValueError("an input is not a list of arguments")
        inputs, atol = restored(task, rows), float(task.get("atol", 0))
    else:
        test = task.get("test", "")
        inputs = literal_calls(test, "candidate")
        atol = 1e-6 if "abs(candidate(" in test.replace(" ", "") else 0.0
    return list({repr(arguments): arguments for arguments in inputs}.values()), atol


def parameters_of(
    function: ast.FunctionDef, inputs: list[list[Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The parameters as the contract names them, and what values they take."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if function.args.vararg or function.args.kwonlyargs or function.args.kwarg:
        raise ValueError("`*args` and keyword-only parameters cannot be imported")
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(function.args.defaults))
    parameters, specs = [], {}
    for at, (argument, default) in enumerate(
        zip(arguments, [*defaults, *function.args.defaults], strict=True)
    ):
        values = [row[at] for row in inputs if at < len(row)]
        specs[argument.arg] = _spec(argument, default, values)
        hint = "object" if argument.annotation is None else ast.unparse(argument.annotation)
        parameter = {"name": argument.arg, "type": hint}
        parameters.append(parameter if default is None else {**parameter, "default": ast.unparse(default)})
    return parameters, specs


def _spec(argument: ast.arg, default: ast.expr | None, values: list[Any]) -> dict[str, Any]:
    if default is not None and not values:
        values = [ast.literal_eval(default)]
    try:
        return spec_of(values, argument.annotation).model_dump()
    except HintError as error:
        if not values:
            raise HintError(f"parameter {argument.arg!r}: {error}") from None
        try:
            return spec_of(values).model_dump()  # a hint that says nothing, but inputs that do
        except HintError:
            return {"type": "given"}


def _preconditions(task: dict[str, Any], function: ast.FunctionDef) -> dict[str, str]:
    """The assertions of a task on its arguments, as a function; an assertion that fails is a no."""
    body = textwrap.dedent(task.get("contract") or "").strip("\n")
    if not body.strip():
        return {}
    names = ", ".join(a.arg for a in (*function.args.posonlyargs, *function.args.args))
    tree = parse(task["prompt"] + task["canonical_solution"])
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines_ = [line.partition("# $_CONTRACT_$")[0].rstrip() for line in body.expandtabs(4).split("\n")]
    check = f"def allowed({names}):\n{textwrap.indent(chr(10).join(lines_), '    ')}\n    return True\n"
    parse(check)
    return {"setup": "\n".join([*imports, check]), "where": f"allowed({names})"}
