"""How pages and figures call things: a readable name, what it means on hover or click, its colour.

Terms come from the glossary. Corruption types, tasks and defences bring their own names; those that come with
the program stand in `registered.json`, so that a page needs neither system. `names.yaml` adds curves, states
and figures. Systems explain names of their own, such as rewriting rules, by the entry point below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import yaml

from homeostat.core.registry import SHOWN, Shown
from homeostat.report import glossary

ENTRY_POINT = "homeostat.explanations"  # functions without arguments that return {name: explanation}
REGISTERED = Path(__file__).with_name("registered.json")
ORACLE = ":oracle"
_TOLD = " It is told which positions were damaged, which no real defence can know."


@cache
def _stored() -> dict[str, Shown]:
    """The names that come with the program."""
    entries = json.loads(REGISTERED.read_text(encoding="utf-8"))
    entries |= yaml.safe_load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"))
    return {name: Shown(**{"kind": "", **entry}) for name, entry in entries.items()}


def names() -> dict[str, Shown]:
    """Every technical name with a readable one, what was registered in this process included."""
    return SHOWN | _stored()


def shown(name: str) -> Shown | None:
    return _stored().get(name) or SHOWN.get(name)


def label(name: str) -> str:
    """The readable name, or the technical one where there is no other."""
    if name.endswith(ORACLE):
        return f"{label(name.removesuffix(ORACLE))} (told the mask)"
    if (known := shown(name)) is not None:
        return known.name
    found = glossary.find(name)
    return found.name if found and found.name and name == found.term else name


def heuristics() -> list[str]:
    """The single heuristics: the baselines that a figure shows only through the best of them."""
    single = [name for name, known in names().items() if known.kind == "heuristic"]
    return sorted(single, key=lambda name: names()[name].order)


def colours() -> dict[str, int]:
    """The colour of each name that has one, in the order of legends."""
    found = {name: known for name, known in names().items() if known.colour is not None}
    return {name: known.colour or 0 for name, known in sorted(found.items(), key=lambda item: item[1].order)}


def page_terms() -> dict[str, tuple[str, str]]:
    """Every name that a page may show, as (readable name, explanation)."""
    known = {
        spelling: (label(spelling), f"{term.short} {term.more}".strip())
        for term in glossary.terms()
        for spelling in (term.term, term.name, *term.also)
        if spelling
    } | {name: (one.name, one.means or glossary.explain(one.term)) for name, one in names().items()}
    told = {
        f"{name}{ORACLE}": (label(f"{name}{ORACLE}"), known[name][1] + _TOLD)
        for name, one in names().items()
        if one.kind in ("heuristic", "trained") or name == "G"
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
