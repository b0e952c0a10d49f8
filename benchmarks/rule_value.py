"""What each rule is worth: the contracts in which programs no longer agree without it.

For every contract, over the recordings, our programs in other styles, the held-out tasks, and variations of
these that were written to test the rules: pairs of programs that have the same normal form with all rules
and not without the one. A rule helps a contract if there is such a pair. Prints the table of docs/rules.md.

    python -m benchmarks.rule_value [--data ../shared/data/skyt_generations] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

import yaml
from benchmarks.held_out import PARTS, tasks
from benchmarks.rescue_table import DATA, read_rows
from benchmarks.styles import STYLES

from homeostat.core.engine import run_tasks
from skyt.contracts.contract import Contract, load_contracts
from skyt.repair.rules import RULES, Facts, normal_form
from skyt.text.normalise import normalise

VARIATIONS = Path(__file__).parent / "variations.yaml"
Program = tuple[str, str]  # contract id, text
Item = tuple[Contract, str, str]  # contract, program, rule left out (or empty)
Form = tuple[str, tuple[str, ...]]


def forms_without(items: list[Item]) -> list[Form]:
    """Normal forms, and the rules that made them, each with one rule left out."""
    found = []
    for contract, text, left_out in items:
        rules = [rule for rule in RULES if rule.name != left_out]
        form = normal_form(text, Facts.from_contract(contract), rules)
        found.append((form.text, form.rules))
    return found


def compute(items: list[Item], workers: int) -> list[Form]:
    batches = [items[at : at + 20] for at in range(0, len(items), 20)]
    outcomes = run_tasks(forms_without, batches, workers=workers, label="normal forms")
    return [form for outcome in outcomes for form in outcome.unwrap()]


def agreeing(forms: list[str]) -> int:
    """Pairs with the same form."""
    return sum(n * (n - 1) // 2 for n in Counter(forms).values())


def helped(
    programs: dict[str, list[str]], whole: dict[Program, Form], without: dict[tuple[Program, str], str]
) -> dict[str, set[str]]:
    """By rule, the contracts in which pairs of these programs no longer agree without it."""
    found: dict[str, set[str]] = defaultdict(set)
    for contract, texts in programs.items():
        forms = [whole[contract, t][0] for t in texts]
        for rule in {r for t in texts for r in whole[contract, t][1]}:
            left = [without.get(((contract, t), rule), whole[contract, t][0]) for t in texts]
            if _lost(forms, left):
                found[rule].add(contract)
    return found


def _lost(forms: list[str], left: list[str]) -> bool:
    """Whether some pair that agrees with the rule does not without it."""
    groups: dict[str, set[str]] = defaultdict(set)
    for form, other in zip(forms, left, strict=True):
        groups[form].add(other)
    return any(len(others) > 1 for others in groups.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    contracts = load_contracts()
    given = json.loads((options.data / "dev_contracts.json").read_text(encoding="utf-8"))
    recorded: dict[str, list[str]] = defaultdict(list)
    for r in read_rows(options.data / "dev.jsonl.gz"):
        recorded[r.contract].append(r.text)
    for c in given:
        recorded[c["contract_id"]].append(normalise(c["canonical_code"]).text)
    corpora = {
        "recorded": {c: list(dict.fromkeys(texts)) for c, texts in recorded.items()},
        "styled": {c: [normalise(t).text for t in texts] for c, texts in STYLES.items()},
        "held out": {},
    }
    for part in PARTS:
        for contract, texts in tasks(part):
            contracts[contract.id] = contract
            corpora["held out"][contract.id] = texts
    corpora["variations"] = {
        c: [*(corpora["styled"].get(c) or corpora["held out"][c]), *(normalise(t).text for t in texts)]
        for c, texts in yaml.safe_load(VARIATIONS.read_text(encoding="utf-8")).items()
    }
    programs = list(dict.fromkeys((c, t) for part in corpora.values() for c, ts in part.items() for t in ts))
    whole = dict(
        zip(programs, compute([(contracts[c], t, "") for c, t in programs], options.workers), strict=True)
    )
    needed = [(p, rule) for p in programs for rule in sorted(set(whole[p][1]))]
    found = compute([(contracts[c], t, rule) for (c, t), rule in needed], options.workers)
    without = {key: form for key, (form, _) in zip(needed, found, strict=True)}
    columns = {name: helped(part, whole, without) for name, part in corpora.items()}
    print("| rule | needs | why it keeps behaviour | contracts helped: " + ", ".join(corpora) + " |")
    print("|---|---|---|---|")
    tally: Counter[str] = Counter()
    for rule in RULES:
        sets = [columns[name][rule.name] for name in corpora]
        every = set().union(*sets)
        mark = "" if len(every) > 1 else f" (**one contract**: {next(iter(every))})" if every else " (none)"
        tally["several" if len(every) > 1 else "one" if every else "none"] += 1
        counts = ", ".join(str(len(s)) for s in sets) + mark
        print(f"| {rule.name} | {rule.needs} | {rule.sound} | {counts} |")
    print(f"\n{len(RULES)} rules: {dict(tally)}; {agreeing([f for f, _ in whole.values()])} pairs agree")


if __name__ == "__main__":
    main()
