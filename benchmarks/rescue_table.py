"""How many samples repair brings to the canon, beside the published tool, on its own recordings.

For every (contract, model): the share of rows that equal the peer's canon before repair, after the peer's
repair, after ours with evidence `rewritten`, and with `equivalent` too, with Wilson intervals; rows that the
peer rescues and we do not, with the call on which that rescue changes behaviour; then the same with the
canon fixed by the first compliant output, and by the most frequent normal form.

    python -m benchmarks.rescue_table [--data ../shared/data/skyt_generations] [--inputs 1000]
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from homeostat.core.engine import run_tasks
from homeostat.core.stats import wilson
from skyt.contracts.contract import Contract, load_contracts
from skyt.oracle.oracle import Oracle
from skyt.repair.equivalence import Equivalence, compare_many
from skyt.repair.rules import Facts, NormalForm, normal_form
from skyt.sandbox.pool import SandboxPool
from skyt.text.extract import extract_code
from skyt.text.normalise import normalise

DATA = Path(__file__).parents[2] / "shared" / "data" / "skyt_generations"


@dataclass(frozen=True)
class Row:
    contract: str
    model: str
    text: str
    peer: str


@dataclass
class Study:
    """Everything computed once: verdicts, normal forms, and comparisons by (contract, program, canon)."""

    contracts: dict[str, Contract]
    pool: SandboxPool
    inputs: int
    workers: int = 2
    oracle: Oracle = field(init=False)
    forms: dict[tuple[str, str], str] = field(default_factory=dict)
    accepted: dict[tuple[str, str], bool] = field(default_factory=dict)
    compared: dict[tuple[str, str, str], Equivalence] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    left_alone: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # why, of those without a normal form

    def __post_init__(self) -> None:
        self.oracle = Oracle(self.pool)

    def prepare(self, programs: Iterable[tuple[str, str]]) -> None:
        new = [p for p in dict.fromkeys(programs) if p not in self.forms]
        outcomes = run_tasks(timed_form, [(self.contracts[c], t) for c, t in new], workers=self.workers)
        for program, outcome in zip(new, outcomes, strict=True):
            form, seconds = outcome.unwrap()
            self.forms[program] = form.text
            self.seconds.append(seconds)
            if not form.complete:
                self.left_alone[program] = form.failure
        verdicts = self.oracle.check_many([(t, self.contracts[c]) for c, t in new])
        self.accepted.update({p: v.compliant for p, v in zip(new, verdicts, strict=True)})

    def rewritten(self, contract: str, text: str, canon: str) -> bool:
        a, b = (contract, text), (contract, canon)
        return text == canon or (self.forms[a] == self.forms[b] and self.accepted[a] == self.accepted[b])

    def compare(self, pairs: Iterable[tuple[str, str, str]]) -> None:
        new = [p for p in dict.fromkeys(pairs) if p not in self.compared]
        results = compare_many([(t, k, self.contracts[c]) for c, t, k in new], self.pool, self.inputs)
        self.compared.update(zip(new, results, strict=True))

    def equivalent(self, contract: str, text: str, canon: str) -> bool:
        if self.rewritten(contract, text, canon):
            return True
        both = self.accepted[contract, text] and self.accepted[contract, canon]
        return both and self.compared[contract, text, canon].equal


def timed_form(item: tuple[Contract, str]) -> tuple[NormalForm, float]:
    """The normal form of one program and the CPU seconds it took."""
    contract, text = item
    start = time.process_time()
    form = normal_form(text, Facts.from_contract(contract))
    return form, time.process_time() - start


def read_rows(path: Path) -> list[Row]:
    def text(raw: str | None) -> str:
        return normalise(extract_code(raw or "")).text

    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [
        Row(r["contract_id"], r["model"], text(r["raw_output"]), text(r.get("peer_repaired_output")))
        for r in found
    ]


def judge(study: Study, rows: list[Row], canons: dict[str, str]) -> None:
    """Compute all that a table with these canons needs."""
    study.prepare((r.contract, r.text) for r in rows)
    study.prepare(canons.items())
    study.compare(
        (r.contract, r.text, canons[r.contract])
        for r in rows
        if not study.rewritten(r.contract, r.text, canons[r.contract])
    )


def table(study: Study, rows: list[Row], canons: dict[str, str], peer: bool) -> None:
    columns: dict[str, Callable[[Row], bool]] = {"before": lambda r: r.text == canons[r.contract]}
    if peer:
        columns["peer"] = lambda r: r.peer == canons[r.contract]
    columns["rewritten"] = lambda r: study.rewritten(r.contract, r.text, canons[r.contract])
    columns["+ equivalent"] = lambda r: study.equivalent(r.contract, r.text, canons[r.contract])
    print(f"{'contract':18} {'model':12} {'N':>5}" + "".join(f"{name:>21}" for name in columns))
    cells = list(dict.fromkeys((r.contract, r.model) for r in rows))
    for contract, model in [*cells, ("overall", "")]:
        chosen = [r for r in rows if contract == "overall" or (r.contract, r.model) == (contract, model)]
        line = f"{contract:18} {model:12} {len(chosen):5}"
        for test in columns.values():
            share = wilson(sum(map(test, chosen)), len(chosen))
            line += f"   {share.estimate:.3f} [{share.low:.3f}–{share.high:.3f}]"
        print(line)


def peer_only(study: Study, rows: list[Row], canons: dict[str, str]) -> None:
    """Rows the peer brings to the canon and we do not, and whether that changed their behaviour."""
    lost = Counter(
        (r.contract, r.text)
        for r in rows
        if r.peer == canons[r.contract] and not study.equivalent(r.contract, r.text, canons[r.contract])
    )
    print(f"\nrows that only the peer brings to the canon: {sum(lost.values())}")
    for (contract, text), count in lost.most_common():
        found = study.compared[contract, text, canons[contract]].counterexample
        shown = f"{found.shown} gave {found.program}, now {found.canon}" if found else "no difference found"
        print(f"  {count:3} × {contract}: {shown}")


def first_compliant(study: Study, rows: list[Row]) -> dict[str, str]:
    found: dict[str, str] = {}
    for r in rows:
        if study.accepted[r.contract, r.text]:
            found.setdefault(r.contract, r.text)
    return found


def modal_form(study: Study, rows: list[Row]) -> dict[str, str]:
    """For each contract the first compliant text with the most frequent normal form."""
    found: dict[str, str] = {}
    for contract in dict.fromkeys(r.contract for r in rows):
        good = [r.text for r in rows if r.contract == contract and study.accepted[contract, r.text]]
        if good:
            best = Counter(study.forms[contract, t] for t in good).most_common(1)[0][0]
            found[contract] = next(t for t in good if study.forms[contract, t] == best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--inputs", type=int, default=1000)
    options = parser.parse_args()
    start = time.perf_counter()
    rows = read_rows(options.data / "dev.jsonl.gz")
    given = json.loads((options.data / "dev_contracts.json").read_text(encoding="utf-8"))
    peers = {c["contract_id"]: normalise(c["canonical_code"]).text for c in given}
    with SandboxPool(workers=2) as pool:
        study = Study(load_contracts(), pool, options.inputs)
        judge(study, rows, peers)
        print("Canon: the peer's\n")
        table(study, rows, peers, peer=True)
        rejected = [c for c, text in peers.items() if not study.accepted[c, text]]
        print(f"\npeer's canons that our oracle rejects: {', '.join(rejected) or 'none'}")
        peer_only(study, rows, peers)
        milliseconds = 1000 * statistics.median(study.seconds)
        took = time.perf_counter() - start
        print(
            f"\nnormal form: median {milliseconds:.1f} ms of CPU over {len(study.seconds)} distinct programs"
        )
        alone = Counter(study.left_alone.get((r.contract, r.text)) for r in rows)
        reasons = ", ".join(f"{n} × {why}" for why, n in alone.items() if why)
        print(f"rows that the rules leave alone: {len(rows) - alone[None]} ({reasons or 'none'})")
        print(f"this table from cold: {took:.0f} s")
        for name, policy in (
            ("the first compliant output", first_compliant),
            ("the modal normal form", modal_form),
        ):
            canons = policy(study, rows)
            kept = [r for r in rows if r.contract in canons]
            judge(study, kept, canons)
            print(f"\nCanon: {name}\n")
            table(study, kept, canons, peer=False)
    print(f"\nall: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
