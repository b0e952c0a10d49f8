"""What a report needs to know of a system: how to recognise its runs, and what to show of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from homeostat.report.blocks import Block
from homeostat.report.reading import RunFiles


@dataclass(frozen=True)
class System:
    """One of the kinds of run. `claims` are the metric files that its sections show."""

    name: str
    title: str
    claims: tuple[str, ...]
    is_here: Callable[[RunFiles], bool]
    sections: Callable[[RunFiles], Iterable[Block]]
    verdicts: Callable[[RunFiles], Iterable[str]]
    key_figures: Callable[[RunFiles], list[Block]]
    sparkline: Callable[[RunFiles], Block | None]
    captions: dict[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
