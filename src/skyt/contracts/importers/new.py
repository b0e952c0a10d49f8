"""The beginning of a contract in Python: from a function that exists, or from a signature and an example."""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from pathlib import Path

from homeostat.core.errors import UserError, nearest, unreadable
from skyt.contracts.importers.annotations import Function, bare
from skyt.text.parsing import parse
from skyt.text.trim import trimmed

_EXAMPLE = re.compile(r"^ *(>>>|\.\.\.) .*$", re.MULTILINE)


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
        text = path.read_text(encoding="utf-8")
        tree = parse(text)
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: not Python: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    functions = [node.name for node in tree.body if isinstance(node, Function)]
    if function not in functions:
        raise UserError(f"{path} has no function {function!r}; {nearest(function, functions)}")
    body = parse(trimmed(text, function)).body
    wanted = next(node for node in body if isinstance(node, Function) and node.name == function)
    needed = [bare(node) for node in body if node is not wanted]
    docstring = ast.get_docstring(wanted) or f"Say here what {name} does.\n\n>>> {name}()"
    quoted = f'"""{_EXAMPLE.sub(lambda line: line[0].replace(function, name), docstring)}\n"""'
    signature = f"{ast.unparse(_stub(wanted, name)).splitlines()[0]}\n{textwrap.indent(quoted, '    ')}"
    reference = bare(_without_docstring(wanted), "reference")
    return "\n\n\n".join(["\n".join(needed), signature, reference]).strip() + "\n"


def _stub(function: Function, name: str) -> Function:
    stub = copy.deepcopy(function)
    stub.name, stub.body, stub.decorator_list = name, [ast.Pass()], []
    return stub


def _source(module: str) -> Path:
    """The file of a module, given by its path or by its dotted name from here."""
    dotted = Path(*module.split("."))
    for path in (Path(module), dotted.with_suffix(".py"), dotted / "__init__.py"):
        if path.is_file():
            return path
    raise UserError(f"no file of the module {module!r} from this folder; give its path: path/to/file.py:name")


def _without_docstring(function: Function) -> Function:
    plain = copy.deepcopy(function)
    if ast.get_docstring(plain) is not None:
        plain.body = plain.body[1:] or [ast.Pass()]
    return plain
