"""Whether a command exists with every option it is written with, without running it."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from tests.docs.markdown import ROOT

_THEIRS = ("cachemedicpp.eval.harness",)  # command lines of other programs, with their options


def problem(command: str) -> str | None:
    """What is wrong with a command, or None. `[--option X]`, `…` and `<name>` are read as people do."""
    plain = re.sub(r"(^|\s)\[(-[^\]]*)\]", r"\1\2", command).replace("…", " ").replace("...", " ")
    words = shlex.split(plain)
    if words[0] == "homeostat":
        from homeostat.cli.main import app

        return _click(typer.main.get_command(app), words[1:], command)
    if words[:2] == ["python", "-m"]:
        return _module(words[2], words[3:], command)
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        wanted = [word for word in words[1:] if "=" not in word]
        return (
            None if all(word in targets for word in wanted) else f"{command}: no such target in the Makefile"
        )
    if words[:2] == ["pip", "install"]:
        return _extras(words[2:], command)
    if words[:2] == ["npm", "--prefix"]:
        scripts = json.loads((ROOT / words[2] / "package.json").read_text())["scripts"]
        known = words[3:] == ["ci"] or (words[3] == "run" and words[4] in scripts)
        return None if known else f"{command}: no such script in {words[2]}/package.json"
    if words[:2] == ["docker", "compose"]:
        import yaml

        return None if yaml.safe_load((ROOT / "compose.yaml").read_text())["services"] else "no services"
    return f"{command}: nobody knows how to check this; see tests/docs/exists.py"


def _click(command: Any, words: list[str], whole: str) -> str | None:
    path = ["homeostat"]
    for word in words:
        if hasattr(command, "commands") and not word.startswith("-"):
            if word not in command.commands:
                return f"{whole}: {' '.join(path)} has no command {word!r}"
            command = command.commands[word]
            path.append(word)
        elif word.startswith("-") and word != "-":
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            if word.partition("=")[0] not in known:
                return f"{whole}: {' '.join(path)} has no option {word}"
    return None


def _module(name: str, words: list[str], whole: str) -> str | None:
    if "<" in name:
        return None
    if name in _THEIRS:
        return None if find_spec(name) is not None else f"{whole}: no module {name}"
    if find_spec(name) is not None and find_spec(name).submodule_search_locations:  # type: ignore[union-attr]
        name += ".__main__"
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return f"{whole}: no module {name}"
    source = Path(spec.origin).read_text(encoding="utf-8")
    command = re.search(r'run_module\("(\w+)"\)', source)
    if command:  # an entry point of the command line under another name
        from cachemedicpp.cli import app

        return _click(typer.main.get_command(app), [command.group(1), *words], whole)
    missing = [w for w in words if w.startswith("--") and f'"{w.partition("=")[0]}"' not in source]
    return f"{whole}: {name} has no option {missing[0]}" if missing else None


def _extras(words: list[str], whole: str) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
        for extra in extras.split(","):
            if extra not in project["optional-dependencies"]:
                return f"{whole}: no extra {extra!r} in pyproject.toml"
    return None
