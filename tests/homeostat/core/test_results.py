"""Result tables: text, HTML and frames show the same rows; what is shown is safe and short."""

from __future__ import annotations

import pytest

from homeostat.core.results import Shown, Table

ROWS = [{"defence": "G", "auc": 0.123456789}, {"defence": "<b>none</b>", "auc": None, "n": 3}]


class Result(Shown):
    def table(self) -> Table:
        return Table.of(ROWS, "areas")


def test_a_result_shows_itself_as_text() -> None:
    assert repr(Result()).splitlines() == [
        "areas",
        "defence         auc  n",
        "G            0.1235  –",
        "<b>none</b>       –  3",
    ]


def test_html_escapes_what_a_model_may_have_written() -> None:
    page = Result()._repr_html_()
    assert "&lt;b&gt;none&lt;/b&gt;" in page and "<b>" not in page and "<caption>areas</caption>" in page


def test_rows_keep_their_precision() -> None:
    assert [row["auc"] for row in Table.of(ROWS)] == [0.123456789, None] and len(Table.of(ROWS)) == 2


def test_a_frame_has_every_row() -> None:
    pytest.importorskip("pandas")
    frame = Table(["x"], [[n] for n in range(100)]).to_frame()
    assert list(frame.columns) == ["x"] and frame["x"].sum() == 4950


def test_a_long_table_says_what_it_leaves_out() -> None:
    shown = repr(Table(["x"], [[n] for n in range(100)]))
    assert shown.endswith("… and 60 more rows") and len(shown.splitlines()) == 42
