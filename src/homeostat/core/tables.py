"""Tables for a paper: plain text in their cells, written as LaTeX (booktabs) and as JSON, which pages show.

A template and not pandas' Styler: it would add pandas to what every user installs, and is no shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from homeostat.core import atomic

_TEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "–": "--",
    **{symbol: f"${name}$" for symbol, name in {"∞": r"\infty", "×": r"\times"}.items()},
    **{symbol: rf"$\{name}$" for symbol, name in {"ε": "epsilon", "λ": "lambda", "Δ": "Delta"}.items()},
    **{digit: f"$^{{{number}}}$" for number, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}  # fmt: skip


@dataclass(frozen=True)
class PaperTable:
    """Rows in groups with a rule between them. `name` is the file's, without an ending, and the label's."""

    name: str
    caption: str
    columns: Sequence[str]
    groups: Sequence[Sequence[Sequence[str]]]

    def write(self, folder: Path) -> Path:
        atomic.write_json(folder / f"{self.name}.json", asdict(self))
        path = folder / f"{self.name}.tex"
        atomic.write_text(path, self.latex())
        return path

    def latex(self) -> str:
        groups = ("".join(f"{_row(row)}\n" for row in group) for group in self.groups if group)
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                r"\begin{table}[t]",
                r"\centering\small",
                rf"\caption{{{tex(self.caption)}}}\label{{tab:{self.name.split('_')[1]}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                _row(self.columns),
                r"\midrule",
                "\\midrule\n".join(groups) + r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text).replace(r" \%", r"\,\%")


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(tex, cells)) + r" \\"
