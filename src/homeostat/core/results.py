"""Results as small tables: text in a terminal, HTML in a notebook, a pandas frame on request."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from homeostat.core.errors import UserError

if TYPE_CHECKING:
    import pandas

_SHOWN = 40  # rows; `to_frame()` and iteration have all


class Shown:
    """A result that can show itself: say what its table is, and the rest follows."""

    @abstractmethod
    def table(self) -> Table:
        """The rows people want to see first."""

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_frame(self) -> pandas.DataFrame:
        """The table as a pandas frame, in full precision. Needs `pip install 'homeostat-llm[notebook]'`."""
        return self.table().to_frame()


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """Rows under named columns. Values keep their precision; only what is shown is rounded."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], title: str = "") -> Table:
        """A table of records: every key is a column, in the order in which keys appear."""
        columns = list(dict.fromkeys(key for record in records for key in record))
        return cls(columns, [[record.get(column) for column in columns] for record in records], title)

    def table(self) -> Table:
        return self

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __repr__(self) -> str:
        cells = [list(self.columns), *([_cell(value) for value in row] for row in self.rows[:_SHOWN])]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        right = [all(_is_number(row[at]) for row in self.rows) for at in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.rjust(width) if flush else cell.ljust(width)
                for cell, width, flush in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in cells
        ]
        return "\n".join([*filter(None, [self.title]), *lines, *self._more()])

    def _repr_html_(self) -> str:
        def line(row: Sequence[Any], tag: str) -> str:
            inside = (
                f'<{tag} style="text-align:{"right" if _is_number(value) else "left"}">'
                f"{html.escape(value if tag == 'th' else _cell(value))}</{tag}>"
                for value in row
            )
            return f"<tr>{''.join(inside)}</tr>"

        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        body = "".join(line(row, "td") for row in self.rows[:_SHOWN])
        more = "".join(f"<p>{html.escape(text)}</p>" for text in self._more())
        return f"<table>{caption}<thead>{line(self.columns, 'th')}</thead><tbody>{body}</tbody></table>{more}"

    def to_frame(self) -> pandas.DataFrame:
        try:
            import pandas
        except ImportError:
            raise UserError("to_frame() needs pandas: pip install 'homeostat-llm[notebook]'") from None
        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def _more(self) -> list[str]:
        left = len(self.rows) - _SHOWN
        return [f"… and {left} more rows"] if left > 0 else []


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"
