"""The words of the project, from `glossary.yaml`: explanations for reports and for docs/glossary.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

GROUPS = {"both": "Both systems", "state": "State: the KV cache", "output": "Output: generated code"}


@dataclass(frozen=True)
class Term:
    """One word with its explanation. `short` is one sentence, good for a tooltip."""

    term: str
    group: str
    short: str
    name: str = ""
    more: str = ""
    formula: str = ""
    also: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    page: str = ""

    @property
    def label(self) -> str:
        """How a person says it; the technical spelling is `term`."""
        return self.name or self.term

    @property
    def anchor(self) -> str:
        """The heading's address in docs/glossary.md."""
        return self.term.lower().replace(" ", "-")


@cache
def terms() -> tuple[Term, ...]:
    """Every term, in the order of the file."""
    found = yaml.safe_load(Path(__file__).with_name("glossary.yaml").read_text(encoding="utf-8"))
    return tuple(_term(group, entry) for group in GROUPS for entry in found[group])


def _term(group: str, entry: dict[str, Any]) -> Term:
    lists = {key: tuple(entry.get(key, ())) for key in ("also", "see")}
    return Term(group=group, **{**entry, **lists})


@cache
def _by_spelling() -> dict[str, Term]:
    return {_key(spelling): term for term in terms() for spelling in (*term.also, term.name, term.term)}


def _key(spelling: str) -> str:
    """Case does not matter, except in symbols of one or two letters: `G` is an operator, `g` is not."""
    return spelling if len(spelling) < 3 else spelling.lower()


def find(spelling: str) -> Term | None:
    """The term that is spelled like this, in any of its spellings, or None."""
    return _by_spelling().get(_key(spelling)) if spelling else None


def explain(spelling: str) -> str:
    """The one-sentence explanation of a term, for a tooltip."""
    if (term := find(spelling)) is None:
        raise KeyError(f"no term {spelling!r} in glossary.yaml")
    return term.short


def markdown() -> str:
    """The page docs/glossary.md, without its heading."""
    return "\n".join(
        f"## {title}\n\n" + "\n".join(_entry(term) for term in terms() if term.group == group)
        for group, title in GROUPS.items()
    )


def _entry(term: Term) -> str:
    lead = f"*{term.name}.* " if term.name else ""
    parts = [f"{lead}{' '.join(filter(None, (term.short, term.more)))}"]
    if term.formula:
        parts.append(f"Formula: `{term.formula}`.")
    see = [f"[{other.term}](#{other.anchor})" for name in term.see if (other := find(name))]
    if term.page:
        see.append(f"[{term.page.partition('#')[0].removesuffix('.md')}]({term.page})")
    if see:
        parts.append(f"See {', '.join(see)}.")
    return f"### {term.term}\n\n" + " ".join(parts) + "\n"
