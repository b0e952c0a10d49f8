"""What a page is made of: sections of blocks, plain JSON that the page's script draws.

Nothing here knows either system. A block is a dictionary with a `kind`; the functions below are the only
places that spell those dictionaries, and `assets/*.js` the only ones that read them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Block = dict[str, Any]
Digits = int | Literal["%"] | None  # decimals, or a share as a percentage; None: by the number's size
Direction = Literal["up", "down"] | None  # which way is better
Role = Literal["clean", "damaged", "repaired"]
Point = tuple[float, float | None, float | None, float | None]  # x, y, low, high


def section(ident: str, title: str, lead: str, blocks: Iterable[Block]) -> Block:
    return {"id": ident, "title": title, "lead": lead, "blocks": list(blocks)}


def prose(text: str) -> Block:
    return {"kind": "prose", "text": text}


def missing(what: str, how: str = "") -> Block:
    """A part that is not in the run directory: named, never made up."""
    return {"kind": "missing", "what": what, "how": how}


def figure(
    label: str,
    value: float | int | str | None,
    *,
    low: float | None = None,
    high: float | None = None,
    level: float | None = None,
    note: str = "",
    before: float | None = None,
    main: bool = False,
    digits: Digits = None,
    name: str | None = None,
    better: Direction = None,
) -> Block:
    """One headline figure; `before` is what it was without repair, `main` marks the ones to read first.

    `name` is what records call it; a comparison of runs marks changes by `better`.
    """
    figures = {"value": value, "low": low, "high": high, "before": before}
    look = {"level": level, "note": note, "main": main, "digits": digits, "better": better}
    return {"label": label, "name": name or label, **{k: number(v) for k, v in figures.items()}, **look}


def figures(items: Sequence[Block]) -> Block:
    return {"kind": "figures", "items": list(items)}


def facts(items: Iterable[tuple[str, Any]]) -> Block:
    return {"kind": "facts", "items": [[name, plain(value)] for name, value in items]}


def column(name: str, *, digits: Digits = None, help: str = "", names: bool = True) -> Block:
    """`names`: technical names in its cells are shown by their readable ones."""
    return {"name": name, "digits": digits, "help": help, "names": names}


def table(
    ident: str,
    title: str,
    columns: Sequence[Block | str],
    rows: Iterable[Sequence[Any]],
    *,
    note: str = "",
    folded: bool = False,
) -> Block:
    """Cells are text, numbers, null, or `interval(...)`."""
    heads = [column(c) if isinstance(c, str) else c for c in columns]
    cells = [[plain(cell) for cell in row] for row in rows]
    return _drawn("table", ident, title, note, folded=folded, columns=heads, rows=cells)


def interval(value: Any, low: Any = None, high: Any = None, *, before: Any = None) -> Any:
    """A table cell with its interval, or the bare number where there is none; `before` is shown before it."""
    value, low, high, before = number(value), number(low), number(high), number(before)
    if value is None or ((low is None or high is None) and before is None):
        return value
    cell = {"v": value, "lo": low, "hi": high}
    return cell if before is None else {**cell, "before": before}


def change(value: float, tone: Literal["better", "worse", "same"], words: str) -> Any:
    """A table cell with a difference and what it means."""
    return {"v": value, "lo": None, "hi": None, "tone": tone, "words": words}


def series(name: str, points: Iterable[Point], *, variant: str | None = None) -> Block:
    rows = [[number(part) for part in point] for point in points]
    return {"name": name, "variant": variant, "points": rows}


def panel(
    title: str,
    lines: Sequence[Block],
    *,
    group: str | None = None,
    y_label: str | None = None,
    digits: Digits = None,
) -> Block:
    """One drawing of a chart; label and number format are the chart's unless given."""
    return {"title": title, "group": group, "series": list(lines), "y": y_label, "digits": digits}


def chart(
    ident: str,
    title: str,
    panels: Sequence[Block],
    *,
    x: str,
    y: str,
    note: str = "",
    x_scale: str = "linear",
    y_scale: str = "linear",
    y_limits: tuple[float, float] | None = None,
    y_digits: Digits = None,
    mode: str = "line",
    off: Sequence[str] = (),
    looks: Mapping[str, int] | None = None,
) -> Block:
    """Curves with bands (`mode="line"`), labelled points (`"scatter"`) or counts (`"steps"`).

    Panels of one `group` are drawn side by side; the reader chooses the group, and series by their names.
    Series named in `off` start hidden; `looks` fixes the colour (a number of the palette) of some names.
    """
    limits = list(y_limits) if y_limits else None
    return _drawn(
        "chart",
        ident,
        title,
        note,
        mode=mode,
        off=list(off),
        looks=dict(looks or {}),
        x={"label": x, "scale": x_scale},
        y={"label": y, "scale": y_scale, "limits": limits, "digits": y_digits},
        panels=list(panels),
    )


def heatmap(
    ident: str,
    title: str,
    maps: Sequence[tuple[str, Sequence[Sequence[float | None]]]],
    *,
    x: str,
    x_ticks: Sequence[Any],
    y: str,
    y_ticks: Sequence[Any],
    value: str,
    note: str = "",
    centre: float | None = None,
    log: bool = False,
) -> Block:
    """Maps on one shared colour scale; with a `centre` the scale diverges from it."""
    axes = {
        axis: {"label": label, "ticks": [str(tick) for tick in ticks]}
        for axis, label, ticks in (("x", x, x_ticks), ("y", y, y_ticks))
    }
    values = [{"name": name, "values": [[number(v) for v in row] for row in rows]} for name, rows in maps]
    return _drawn("heatmap", ident, title, note, value=value, centre=centre, log=log, maps=values, **axes)


def dots(
    ident: str,
    title: str,
    names: Sequence[str],
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    x: str,
    limits: tuple[float, float] | None = None,
    note: str = "",
    compare: str | None = None,
    digits: Digits = 3,
    looks: Mapping[str, int] | None = None,
) -> Block:
    """One line for each category with a dot (and interval) for each name; runs are compared by `compare`."""
    return _drawn(
        "dots",
        ident,
        title,
        note,
        names=list(names),
        compare=compare,
        looks=dict(looks or {}),
        x={"label": x, "limits": list(limits) if limits else None, "digits": digits},
        rows=[{"label": label, "values": {k: plain(v) for k, v in values.items()}} for label, values in rows],
    )


def shares(
    ident: str, title: str, names: Sequence[str], rows: Iterable[tuple[str, Sequence[int]]], *, note: str = ""
) -> Block:
    """Stacked bars of counts that make up a whole."""
    counted = [{"label": label, "counts": [int(c) for c in counts]} for label, counts in rows]
    return _drawn("shares", ident, title, note, names=list(names), rows=counted)


def answers(ident: str, question: str, states: Sequence[Block], *, note: str = "") -> Block:
    """What a model said from several caches, the clean one first; see `answer`."""
    return {"kind": "answers", "id": ident, "question": question, "note": note, "states": list(states)}


def answer(name: str, label: str, role: Role, text: Any, perplexity: Any) -> Block:
    said = {"text": str(text or ""), "perplexity": number(perplexity)}
    return {"name": name, "label": label, "role": role, **said}


def text(title: str, content: str, *, folded: bool = True) -> Block:
    return {"kind": "text", "title": title, "text": content, "folded": folded}


def _drawn(kind: str, ident: str, title: str, note: str, **rest: Any) -> Block:
    return {"kind": kind, "id": ident, "title": title, "note": note, **rest}


def number(value: Any) -> Any:
    """JSON has no NaN or infinity: such a figure is shown as missing."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def plain(value: Any) -> Any:
    """A value that JSON can carry: text, number, true/false, null, or an interval with what belongs to it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict) and {"v", "lo", "hi"} <= value.keys():
        return {key: number(part) for key, part in value.items()}
    return str(value)
