"""The twelve tasks in other styles than the recordings: type hints, guard clauses, helpers, early returns.

How many normal forms the programs of `styles.yaml` have says how far the rules reach beyond the data they
were developed on.

    python -m benchmarks.styles
"""

from __future__ import annotations

from pathlib import Path

import yaml

from skyt.contracts.contract import load_contracts
from skyt.repair.rules import Facts, normal_form

STYLES: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def main() -> None:
    contracts = load_contracts()
    print(f"{'contract':20} programs  normal forms  of the first one's form")
    total = forms = like = 0
    for name, programs in STYLES.items():
        found = [normal_form(code, Facts.from_contract(contracts[name])).text for code in programs]
        same = sum(text == found[0] for text in found)
        print(f"{name:20} {len(programs):8} {len(set(found)):13} {same:24}")
        total, forms, like = total + len(programs), forms + len(set(found)), like + same
    print(f"{'all':20} {total:8} {forms:13} {like:24}")


if __name__ == "__main__":
    main()
