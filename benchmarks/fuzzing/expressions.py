"""Expressions of a kind, from a grammar and a random source.

The kinds: `int`, `bool`, `str`, `ints`, `strs`, `dict`, `set`, `iter` (an iterator over numbers), `test`
(anything that has a truth value) and `raising` (what may well raise). `vocabulary` has the grammar.
"""

from __future__ import annotations

import random
import re

from benchmarks.fuzzing.vocabulary import GRAMMAR_TEXT, ITERATIONS, LEAVES

PLAIN = 0.6  # share of programs without what the rules may refuse whole: `try`, generators kept, unpacking
_FANCY = re.compile(r"[\[{]\*|:=|\biter\b|reversed|map\(|filter\(")
_HOLE = re.compile(r"<(a )?(\w+)( w)?>")


def _alternatives() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    kind = ""
    for line in GRAMMAR_TEXT.strip().splitlines():
        if line.startswith(" "):
            found[kind].append(line.strip())
        else:
            kind = line.rstrip(":")
            found[kind] = []
    return found


ALTERNATIVES = _alternatives()


class Expressions:
    """Makes expressions from the names in `scope`, which maps them to their kinds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.scope: dict[str, str] = {}
        self.helper = False  # whether the program defines `t`, a function that leaves a trace
        self.plain = rng.random() < PLAIN

    def name(self, kind: str) -> str:
        return self.rng.choice([name for name, known in self.scope.items() if known == kind])

    def expression(self, kind: str, depth: int) -> str:
        if kind in self.scope.values() and (depth <= 0 or self.rng.random() < 0.35):
            return self.name(kind)
        if depth <= 0:
            return self.filled(self.pick(LEAVES[kind]), 0)
        made = self.filled(self.pick(ALTERNATIVES[kind]), depth - 1)
        if self.helper and kind in ("int", "ints", "str") and self.rng.random() < 0.12:
            return f"t({made})"
        return made

    def pick(self, templates: list[str]) -> str:
        """A template whose names can be had here."""
        return self.rng.choice([text for text in templates if self._possible(text)])

    def _possible(self, template: str) -> bool:
        needed = {hole[2] for hole in _HOLE.finditer(template) if hole[1]}
        return needed <= set(self.scope.values()) and not (self.plain and _FANCY.search(template))

    def filled(self, template: str, depth: int) -> str:
        def fill(hole: re.Match[str]) -> str:
            kind = hole[2]
            if hole[1]:
                return self.name(kind)
            if not hole[3]:
                return self.expression(kind, depth)
            before = self.scope
            self.scope = {**before, "w": "str" if kind == "str" else "int"}
            made = self.expression(kind, depth)
            self.scope = before
            return made

        return _HOLE.sub(fill, template)

    def iteration(self) -> tuple[str, str, dict[str, str]]:
        """A loop's target, what it goes over, and the names it binds."""
        target, source, kinds = self.rng.choice([it for it in ITERATIONS if self._possible(it[1])])
        bound = dict(zip(target.split(", "), kinds.split(), strict=True))
        return target, self.filled(source, 1), bound
