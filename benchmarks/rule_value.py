"""What each rule is worth: in how many contracts it helps a program to another one's normal form.

Counted over the recordings (rows that reach the peer's canon) and over programs of our own in other styles
(`benchmarks.styles`). With `--ablate` also how many recorded rows are lost when the rule is left out, which
takes minutes. Prints a Markdown table (the one in docs/rules.md).

    python -m benchmarks.rule_value [--ablate] [--data ../shared/data/skyt_generations]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.rescue_table import DATA, read_rows
from benchmarks.styles import STYLES

from homeostat.engine import run_tasks
from skyt.contract import Contract, load_contracts
from skyt.normalise import normalise
from skyt.rules import RULES, Facts, normal_form

Item = tuple[Contract, str, str]  # contract, program, rule left out (or empty)
Form = tuple[str, tuple[str, ...]]
Program = tuple[str, str]


def forms_without(items: list[Item]) -> list[Form]:
    """Normal forms, and the rules that made them, each with one rule left out."""
    found = []
    for contract, text, left_out in items:
        rules = [rule for rule in RULES if rule.name != left_out]
        form = normal_form(text, Facts.from_contract(contract), rules)
        found.append((form.text, form.rules))
    return found


def compute(items: list[Item]) -> list[Form]:
    batches = [items[at : at + 20] for at in range(0, len(items), 20)]
    outcomes = run_tasks(forms_without, batches, workers=2, label="normal forms")
    return [form for outcome in outcomes for form in outcome.unwrap()]


def helped(whole: dict[Program, Form], targets: dict[str, str]) -> dict[str, set[str]]:
    """By rule, the contracts in which it is on a program's way to the target's normal form."""
    found: dict[str, set[str]] = defaultdict(set)
    for (contract, text), (form, rules) in whole.items():
        target_form, target_rules = whole[contract, targets[contract]]
        if text != targets[contract] and form == target_form:
            for rule in {*rules, *target_rules}:
                found[rule].add(contract)
    return found


def ablation(
    whole: dict[Program, Form], rows: Counter[Program], canons: dict[str, str], contracts: dict[str, Contract]
) -> Counter[str]:
    """By rule, the recorded rows that miss the canon without it."""
    hits = [p for p in rows if whole[p][0] == whole[p[0], canons[p[0]]][0]]
    pairs = [(p, (p[0], canons[p[0]])) for p in hits]
    needed = sorted({(q, r) for p, k in pairs for q in (p, k) for r in {*whole[p][1], *whole[k][1]}})
    found = compute([(contracts[c], t, rule) for (c, t), rule in needed])
    without = {key: text for key, (text, _) in zip(needed, found, strict=True)}
    lost: Counter[str] = Counter()
    for rule in RULES:
        for p, k in pairs:
            if without.get((p, rule.name), whole[p][0]) != without.get((k, rule.name), whole[k][0]):
                lost[rule.name] += rows[p]
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--ablate", action="store_true")
    options = parser.parse_args()
    contracts = load_contracts()
    given = json.loads((options.data / "dev_contracts.json").read_text(encoding="utf-8"))
    canons = {c["contract_id"]: normalise(c["canonical_code"]).text for c in given}
    rows = Counter((r.contract, r.text) for r in read_rows(options.data / "dev.jsonl.gz"))
    recorded: list[Program] = list(dict.fromkeys([*rows, *canons.items()]))
    styled: list[Program] = [(c, normalise(t).text) for c, texts in STYLES.items() for t in texts]
    programs = list(dict.fromkeys([*recorded, *styled]))
    whole = dict(zip(programs, compute([(contracts[c], t, "") for c, t in programs]), strict=True))
    first = {c: normalise(texts[0]).text for c, texts in STYLES.items()}
    in_rows = helped({p: whole[p] for p in recorded}, canons)
    in_styles = helped({p: whole[p] for p in styled}, first)
    lost = ablation(whole, rows, canons, contracts) if options.ablate else None
    print(
        "| rule | needs | why it keeps behaviour | contracts: recorded, styled |"
        + (" rows |" if lost else "")
    )
    print("|---|---|---|---|" + ("---:|" if lost else ""))
    for rule in RULES:
        both = in_rows[rule.name] | in_styles[rule.name]
        mark = "" if len(both) > 1 else f" ({next(iter(both))} only)" if both else " (none)"
        counts = f"{len(in_rows[rule.name])}, {len(in_styles[rule.name])}{mark}"
        extra = f" {lost[rule.name]} |" if lost else ""
        print(f"| {rule.name} | {rule.needs} | {rule.sound} | {counts} |{extra}")


if __name__ == "__main__":
    main()
