"""The pages that are written from the code: every command with its options, and the glossary.

python -m homeostat.cli.reference [FOLDER]      # docs by default
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homeostat.core import atomic
from homeostat.report import glossary

NOTE = "<!-- Written by `python -m homeostat.cli.reference`; change the code, not this page. -->\n"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    for name, text in pages().items():
        atomic.write_text(folder / name, text)
        print(folder / name)


def pages() -> dict[str, str]:
    """Every page by its path in `docs`."""
    return {"reference/cli.md": command_page(), "glossary.md": glossary_page()}


def glossary_page() -> str:
    about = "The words that pages and reports of this project use. Reports show the same explanations."
    return f"# Glossary\n\n{NOTE}\n{about}\n\n{glossary.markdown()}"


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


def _safe(text: str) -> str:
    """A help text; anything that would read as markup outside code is escaped."""
    return re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)


if __name__ == "__main__":
    main()
