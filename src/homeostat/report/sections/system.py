"""A kind of run as data: the records by which it is known, its sections, and its figures in lists of runs.

A section says which record it needs and which blocks it makes of it. A table of records says where the value
of each column stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Digits, missing, section
from homeostat.report.reading import RunFiles


@dataclass(frozen=True)
class Section:
    """`blocks` gets the run and the metrics named `needs`. Without them `absent` says what is missing and how
    to make it; a section without blocks is left out."""

    ident: str
    title: str
    blocks: Callable[[RunFiles, Record], Iterable[Block]]
    lead: str = ""
    needs: str = ""
    absent: tuple[str, ...] = ()

    def of(self, files: RunFiles) -> Iterator[Block]:
        metrics = files.metrics(self.needs) if self.needs else {}
        if metrics is None:
            parts = [missing(*(text.format(run=files.path) for text in self.absent))] if self.absent else []
        else:
            parts = list(self.blocks(files, metrics))
        if parts:
            yield section(self.ident, self.title, "" if metrics is None else self.lead, parts)


@dataclass(frozen=True)
class System:
    """One of the kinds of run; `known` recognises those that have none of its metrics yet."""

    name: str
    title: str
    sections: tuple[Section, ...]
    verdicts: Callable[[RunFiles], Iterable[str]]
    key_figures: Callable[[RunFiles], list[Block]]
    sparkline: Callable[[RunFiles], Block | None] = lambda files: None
    known: Callable[[RunFiles], bool] = lambda files: False
    captions: dict[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()

    @property
    def claims(self) -> set[str]:
        """The metric files that its sections show."""
        return {section.needs for section in self.sections} - {""}

    def is_here(self, files: RunFiles) -> bool:
        return not self.claims.isdisjoint(files.metric_names()) or self.known(files)


@dataclass(frozen=True)
class Field:
    """A column of a table of records: its title, and the key of its values or a function that finds them."""

    title: str
    of: str | Callable[[Record], Any]
    digits: Digits = None
    help: str = ""
    names: bool = True

    def cell(self, record: Record) -> Any:
        return shown(self.of(record) if callable(self.of) else record.get(self.of))


def records(ident: str, title: str, fields: Sequence[Field], rows: Iterable[Record], **look: Any) -> Block:
    """A table with a row for each record."""
    columns = [blocks.column(f.title, digits=f.digits, help=f.help, names=f.names) for f in fields]
    return blocks.table(ident, title, columns, [[f.cell(row) for f in fields] for row in rows], **look)


def spread(found: Any) -> tuple[Any, Any, Any]:
    """A value and its interval, in either form of our records: `{estimate, low, high}` or `{value, ci}`."""
    if not isinstance(found, dict):
        return (found, None, None)
    if "estimate" in found:
        return (found["estimate"], found.get("low"), found.get("high"))
    ci = found.get("ci")
    low, high = ci if isinstance(ci, list) and len(ci) == 2 else (None, None)
    return (found.get("value"), low, high)


def shown(found: Any) -> Any:
    """A table cell: an estimate with its interval, or the value as it is."""
    estimate = isinstance(found, dict) and not found.keys().isdisjoint(("estimate", "value"))
    return blocks.interval(*spread(found)) if estimate else found


def rows_of(metrics: Record | None, key: str) -> list[Record]:
    """The records of a list, as far as they are records."""
    rows = (metrics or {}).get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def measured(text: str, found: Any, **look: Any) -> Block:
    """A headline figure of an estimate with its interval."""
    value, low, high = spread(found)
    level = found.get("level", 0.95 if "ci" in found else None) if isinstance(found, dict) else None
    return blocks.figure(text, value, low=low, high=high, **{"level": level, **look})


percent = partial(measured, digits="%")
