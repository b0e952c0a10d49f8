"""Figures and tables a run wrote for its paper, and metrics no other section has claimed, for any run."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator
from typing import Any

from homeostat.report.blocks import Block, facts, interval, missing, section, table, text
from homeostat.report.reading import RunFiles, flatten

_IMAGE_LIMIT = 1_500_000  # bytes of one picture
_IMAGES_LIMIT = 6_000_000  # bytes of all of them: the report stays small enough to send
_TABLE_ROWS = 2000


def figures_section(files: RunFiles, captions: dict[str, str], expected: Collection[str]) -> Block | None:
    """The run's PNG figures, in the order of `captions` first; an expected one that is not there is named."""
    paths = {
        path.name: path for path in files.files("paper/figures", ".png") + files.files("figures", ".png")
    }
    order = [name for name in captions if name in paths] + [name for name in paths if name not in captions]
    items, left_out, total = [], [], 0
    for name in order:
        size = paths[name].stat().st_size
        if size > _IMAGE_LIMIT or total + size > _IMAGES_LIMIT:
            left_out.append(name)
            continue
        total += size
        picture = base64.b64encode(paths[name].read_bytes()).decode("ascii")
        title = captions.get(name) or name.removesuffix(".png").replace("_", " ")
        where = paths[name].relative_to(files.path).as_posix()
        items.append({"title": title, "path": where, "src": f"data:image/png;base64,{picture}"})
    blocks: list[Block] = [{"kind": "images", "items": items}] if items else []
    blocks += [
        missing(f"{name}: it is too large to carry in a report and stays in the run directory")
        for name in left_out
    ]
    blocks += [missing(f"figure {name}") for name in expected if name not in paths]
    if not blocks:
        return None
    return section("figures", "Figures", "As written by the run, also as PDF beside them.", blocks)


def tables_section(files: RunFiles, expected: Collection[str] = ()) -> Block | None:
    """The run's tables as pages show them, each with its source in LaTeX."""
    names = [path.stem for path in files.files("paper/tables", ".tex")]
    blocks = [block for name in names for block in _paper_table(files, name)]
    blocks += [missing(f"table {name}.tex") for name in expected if name not in names]
    return section("tables", "Tables", "As written by the run for LaTeX.", blocks) if blocks else None


def _paper_table(files: RunFiles, name: str) -> Iterator[Block]:
    path = f"paper/tables/{name}.json"
    found = files.json(path) or {}
    try:
        rows = [[str(cell) for cell in row] for group in found["groups"] for row in group]
        columns, caption = [str(column) for column in found["columns"]], str(found["caption"])
    except (KeyError, TypeError) as error:
        rows = []
        if found:
            files.problem(path, error)
    if rows:
        title = name.removeprefix("table_").replace("_", " ").capitalize()
        yield table(f"tex-{slug(name)}", title, columns, rows, note=caption)
    if (source := files.text(f"paper/tables/{name}.tex")) is not None:
        yield text(f"{name}.tex (LaTeX)", source, folded=bool(rows))


def other_section(files: RunFiles, claimed: Collection[str], alone: bool) -> Block | None:
    """Metric files that no section knows: scalars as facts, lists of records as tables, nothing left out."""
    blocks: list[Block] = []
    for name in files.metric_names():
        found = files.metrics(name)
        if name in claimed or found is None:
            continue
        scalars: dict[str, Any] = {}
        for key, value in found.items():
            if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
                rows = [flatten(row, leaf=is_interval) for row in value[:_TABLE_ROWS]]
                columns = list(dict.fromkeys(column for row in rows for column in row))
                cut = f"The first {_TABLE_ROWS:,} of {len(value):,} rows." if len(value) > _TABLE_ROWS else ""
                cells = [[_shown(row.get(column)) for column in columns] for row in rows]
                blocks.append(table(f"{name}-{slug(key)}", f"{name}: {key}", columns, cells, note=cut))
            elif isinstance(value, dict):
                scalars |= flatten({key: value}, leaf=is_interval)
            else:
                scalars[key] = value
        if scalars:
            blocks.append(facts((key, _shown(value)) for key, value in scalars.items()))
    if not blocks:
        return None
    if alone:
        return section("measured", "Measured", "", blocks)
    return section("measured", "Also measured", "Everything measured that has no picture above.", blocks)


def is_interval(value: Any) -> bool:
    return isinstance(value, dict) and {"estimate", "low", "high"} <= value.keys()


def _shown(value: Any) -> Any:
    return interval(value["estimate"], value["low"], value["high"]) if is_interval(value) else value


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
