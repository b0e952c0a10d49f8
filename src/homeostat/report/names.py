"""How pages call things: a readable name for each technical one, and what it means on hover or click.

Terms come from the glossary; `names.yaml` adds defences, kinds of damage, tasks and figures, in the words of
the run's own pictures. Systems explain names of their own, such as rewriting rules, by the entry point below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import yaml

from homeostat.report import glossary

ENTRY_POINT = "homeostat.explanations"  # functions without arguments that return {name: explanation}
_ORACLE = ":oracle"
_TOLD = " It is told which positions were damaged, which no real defence can know."


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Readable name and meaning by technical name."""
    entries = yaml.safe_load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"))
    return {
        name: (entry["name"], entry.get("means") or glossary.explain(entry["term"]))
        for name, entry in entries.items()
    }


def label(name: str) -> str:
    """The readable name, or the technical one where there is no other."""
    if name.endswith(_ORACLE):
        return f"{label(name.removesuffix(_ORACLE))} (told the mask)"
    if name in _names():
        return _names()[name][0]
    found = glossary.find(name)
    return found.name if found and found.name and name == found.term else name


@cache
def heuristics() -> tuple[str, ...]:
    """The single heuristics: the baselines that a figure shows only through the best of them."""
    return tuple(name for name, (_, meaning) in _names().items() if meaning.startswith("A heuristic"))


@cache
def page_terms() -> dict[str, tuple[str, str]]:
    """Every name that a page may show, as (readable name, explanation)."""
    known = {
        spelling: (label(spelling), f"{term.short} {term.more}".strip())
        for term in glossary.terms()
        for spelling in (term.term, term.name, *term.also)
        if spelling
    } | _names()
    repairs = [*heuristics(), *(n for n, (_, meaning) in _names().items() if meaning.startswith("A trained"))]
    told = {
        f"{name}{_ORACLE}": (label(f"{name}{_ORACLE}"), known[name][1] + _TOLD) for name in [*repairs, "G"]
    }
    return known | told


def explanations(names: Collection[str]) -> dict[str, str]:
    """What the systems say about these names, such as the rules that repaired a sample."""
    known = _from_systems() if names else {}
    return {name: known[name] for name in names if name in known}


@cache
def _from_systems() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entry_points(group=ENTRY_POINT):
        provider: Callable[[], dict[str, str]] = entry.load()
        found |= provider()
    return found
