"""The pages that are written from the code: every command with its options, every public name, the glossary.

python -m homeostat.cli.reference [FOLDER]      # docs by default
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pydantic

from homeostat.core import atomic
from homeostat.report import glossary

# What people import. A module's public names are its `__all__`, else what it defines without an underscore.
MODULES = {
    "homeostat": (
        "homeostat.core.models",
        "homeostat.core.config",
        "homeostat.core.rundir",
        "homeostat.core.records",
        "homeostat.core.engine",
        "homeostat.core.stats",
        "homeostat.core.figures",
        "homeostat.core.results",
        "homeostat.report",
        "homeostat.core.atomic",
        "homeostat.core.errors",
    ),
    "cachemedicpp": (
        "cachemedicpp",
        "cachemedicpp.corruption",
        "cachemedicpp.repair.base",
        "cachemedicpp.repair.heuristics",
        "cachemedicpp.repair.operators",
        "cachemedicpp.tasks",
        "cachemedicpp.corruption.config",
        "cachemedicpp.repair.config",
        "cachemedicpp.tasks.config",
    ),
    "skyt": (
        "skyt",
        "skyt.contracts.contract",
        "skyt.text.normalise",
        "skyt.text.signature",
        "skyt.text.distance",
        "skyt.repair.rules",
        "skyt.oracle.oracle",
        "skyt.repair.repair",
        "skyt.metrics.formulas",
        "skyt.sandbox",
        "skyt.generators.config",
        "skyt.runs.config",
    ),
}
_WIDE = 100
NOTE = "<!-- Written by `python -m homeostat.cli.reference`; change the code, not this page. -->\n"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    for name, text in pages().items():
        atomic.write_text(folder / name, text)
        print(folder / name)


def pages() -> dict[str, str]:
    """Every page by its path in `docs`."""
    found = {f"reference/{package}.md": package_page(package) for package in MODULES}
    return {"reference/cli.md": command_page(), "glossary.md": glossary_page(), **found}


def glossary_page() -> str:
    about = "The words that pages and reports of this project use. Reports show the same explanations."
    return f"# Glossary\n\n{NOTE}\n{about}\n\n{glossary.markdown()}"


# Names


def package_page(package: str) -> str:
    parts = [f"# {package}\n\n{NOTE}"]
    seen: set[int] = set()
    for name in MODULES[package]:
        module = import_module(name)
        parts.append(f"## `{name}`\n\n{_text(module)}")
        for public, thing in _public(module):
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            parts.append(_class(public, thing) if inspect.isclass(thing) else _function(public, thing))
    return "\n".join(parts)


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    named = getattr(module, "__all__", None)
    for name in sorted(named or (n for n in vars(module) if not n.startswith("_")), key=str.lower):
        thing = getattr(module, name)
        known = inspect.isclass(thing) or inspect.isfunction(thing)
        if known and (named is not None or thing.__module__ == module.__name__):
            yield name, thing


def _function(name: str, thing: Any) -> str:
    return f"### `{name}`\n\n{_call(name, thing)}\n{_text(thing)}"


def _call(name: str, thing: Any) -> str:
    """How it is called, with one parameter per line where the call is long."""
    signature = _signature(thing)
    line = f"{name}{signature.removesuffix(' -> None') if inspect.isclass(thing) else signature}"
    if len(line) > _WIDE:
        given, _, result = line.removeprefix(f"{name}(").rpartition(")")
        parts = re.split(r", (?![^\[(]*[\])])", given)
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    return f"```text\n{line}\n```\n"


def _class(name: str, thing: type) -> str:
    if issubclass(thing, pydantic.BaseModel):
        return f"### `{name}`\n\n{_text(thing)}\n{_settings(thing)}"
    made = dataclasses.is_dataclass(thing) or "__init__" in vars(thing)
    parts = ["\n".join([f"### `{name}`\n", *([_call(name, thing)] if made else []), _text(thing)])]
    for method, value in vars(thing).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if method.startswith("_") or not (inspect.isfunction(inner) or isinstance(inner, property)):
            continue
        shown = f".{method}" if isinstance(inner, property) else f".{method}{_signature(inner, bound=True)}"
        about = _first_line(inner)
        parts.append(f"- `{shown}`" + (f": {about}" if about else "") + "\n")
    return "\n".join([parts[0], "".join(parts[1:])]) if len(parts) > 1 else parts[0]


def _settings(model: type[pydantic.BaseModel]) -> str:
    """The keys of a configuration section."""
    rows = ["| key | default | |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        value = None if field.is_required() else field.get_default(call_default_factory=True)
        default = "required" if field.is_required() else _default(value)
        rows.append(f"| `{name}` | {default} | {_cell(field.description or '')} |")
    return "\n".join(rows) + "\n" if model.model_fields else ""


def _default(value: Any) -> str:
    if isinstance(value, pydantic.BaseModel):
        return f"see `{type(value).__name__}`"
    text = repr(value)
    return f"`{_cell(text if len(text) <= 90 else text[:87] + '…')}`"


class _Bare(str):
    """An annotation as it is written, without the quotes that postponed evaluation gives it."""

    def __repr__(self) -> str:
        return str(self)


def _signature(thing: Any, bound: bool = False) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    given = list(signature.parameters.values())
    if bound and given and given[0].name in ("self", "cls"):
        given = given[1:]
    plain = [p.replace(annotation=_bare(p.annotation), default=_plain(p.default)) for p in given]
    return str(signature.replace(parameters=plain, return_annotation=_bare(signature.return_annotation)))


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _plain(default: Any) -> Any:
    """Defaults whose text would carry an address are left out."""
    return _Bare("…") if " at 0x" in repr(default) else default


def _text(thing: Any) -> str:
    own = inspect.getdoc(thing) or ""
    return f"{_safe(own)}\n" if own else ""


def _safe(text: str) -> str:
    """A docstring's paragraphs; anything that would read as markup outside code is escaped."""
    return re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)


def _first_line(thing: Any) -> str:
    return _safe((inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " "))


# Commands


def command_page() -> str:
    import typer

    from homeostat.cli.main import app

    codes = "Exit codes: 0 done, 1 the work failed, 2 a mistake in the input, 130 interrupted."
    parts = [f"# Commands\n\n{NOTE}\n{codes}\n"]
    parts += _commands(typer.main.get_command(app), "homeostat")
    return "\n".join(parts)


def _commands(command: Any, path: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        if path != "homeostat":
            yield f"## `{path}`\n\n{_safe(inspect.cleandoc(command.help or ''))}\n"
        singles = sorted(name for name in inner if not hasattr(inner[name], "commands"))
        for name in [*singles, *sorted(set(inner) - set(singles))]:
            yield from _commands(inner[name], f"{path} {name}")
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join([path, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])])
    rows = [f"| `{_argument(p)}` | {_cell(getattr(p, 'help', None) or '')} |" for p in arguments]
    rows += [f"| {_option(p)} | {_cell(p.help or '')}{_shown(p)} |" for p in options]
    table = "\n".join(["| | |", "|---|---|", *rows]) + "\n" if rows else ""
    about = _safe(inspect.cleandoc(command.help or ""))
    yield f"### `{path}`\n\n{about}\n\n```text\nusage: {usage}\n```\n\n{table}"


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()).strip("[]")
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names = ", ".join(parameter.opts)
    if parameter.is_flag:
        return f"`{names}`"
    return f"`{names} {parameter.metavar or parameter.name.upper()}`"


def _shown(parameter: Any) -> str:
    if parameter.required:
        return " Required."
    value = parameter.default
    if value is None or parameter.is_flag or callable(value) or value == []:
        return ""
    return f" Default: `{getattr(value, 'value', value)}`."


def _cell(text: str) -> str:
    return _safe(" ".join(text.split())).replace("|", "\\|")


if __name__ == "__main__":
    main()
