"""Do the rules keep behaviour, and does evidence hold? Three counts that should all be zero.

1. Every distinct program of the recordings, of our own in other styles and of the held-out tasks, and mutants
   of them, against its own normal form on generated in-domain inputs, and before the oracle: programs that
   differ from their normal form. (A program that does not load has no behaviour to keep: rules drop demo
   code, which may be what fails. The oracle rejects it, and repair asks the oracle.)
2. Mutants that the oracle rejects, repaired with all evidence allowed: those that end at distance 0.
3. Pairs called equivalent, on many further inputs from another seed: those that are refuted.

    python -m benchmarks.soundness [--mutants 500] [--rejected 2000] [--inputs 1000] [--further 20000]
                                   [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.held_out import PARTS, tasks
from benchmarks.rescue_table import DATA, Study, read_rows
from benchmarks.styles import STYLES

from homeostat.core.engine import run_tasks
from skyt.contracts.contract import Contract, load_contracts
from skyt.contracts.domain import generate_inputs
from skyt.repair.equivalence import compare
from skyt.repair.rules import Facts, normal_form
from skyt.sandbox.pool import Job, SandboxPool, encode_calls
from skyt.text.mutants import mutants
from skyt.text.normalise import normalise

Program = tuple[str, str]  # contract id, text
BATCH = 1000


def form_of(item: tuple[Contract, str]) -> str:
    contract, text = item
    return normal_form(text, Facts.from_contract(contract)).text


def mutated(programs: list[Program], seed: int) -> Iterator[Program]:
    """An endless stream of mutants of randomly chosen programs, without repeats."""
    rng = random.Random(seed)
    seen: set[Program] = set(programs)
    for round_number in range(1000):
        for contract, text in rng.sample(programs, len(programs)):
            for mutant in mutants(text, 2, seed + round_number):
                program = (contract, normalise(mutant).text)
                if program not in seen:
                    seen.add(program)
                    yield program


def differing(study: Study, programs: list[Program], inputs: int, seed: int) -> list[str]:
    """Programs that behave differently from their normal forms, with a call that shows it."""
    contracts = study.contracts
    calls = {c: generate_inputs(contracts[c], inputs, seed) for c in {c for c, _ in programs}}
    encoded = {c: encode_calls(found) for c, found in calls.items()}
    forms = [
        o.unwrap()
        for o in run_tasks(form_of, [(contracts[c], t) for c, t in programs], workers=study.workers)
    ]
    jobs = [
        Job(text, contracts[c].entry_point, encoded[c])
        for (c, original), form in zip(programs, forms, strict=True)
        for text in (original, form)
    ]
    results = study.pool.run_many(jobs)
    found: list[str] = []
    loaded = [not any(r.kind == "unloaded" for r in results[2 * i]) for i in range(len(programs))]
    for i, (contract, text) in enumerate(programs):
        if not loaded[i]:
            continue
        for call, a, b in zip(calls[contract], results[2 * i], results[2 * i + 1], strict=True):
            unfinished = {a.kind, b.kind} & {"timeout", "unrun", "crash"}
            if a != b and _anywhere(a.show()) != _anywhere(b.show()) and not unfinished:
                shown = call.show(contracts[contract].entry_point.name)
                found.append(f"{contract}: {shown}: {a.show()}, normal form {b.show()}\n{text}")
                break
    before = study.oracle.check_many([(t, contracts[c]) for c, t in programs])
    after = study.oracle.check_many([(f, contracts[c]) for (c, _), f in zip(programs, forms, strict=True)])
    for (contract, text), a, b, runs in zip(programs, before, after, loaded, strict=True):
        # Static constraints speak of how a program is written, which a normal form is free to change.
        written = a.checks.get("constraints") and b.checks.get("constraints")
        if runs and a.compliant != b.compliant and written:
            found.append(
                f"{contract}: the oracle says {a.failures} and of the normal form {b.failures}\n{text}"
            )
    return found


def _anywhere(shown: str) -> str:
    """A result without addresses: a mutant may return the text of a generator, which no run repeats."""
    return re.sub(r" at 0x[0-9a-f]+", " at …", shown)


def rejected_mutants(study: Study, programs: list[Program], wanted: int) -> list[Program]:
    found: list[Program] = []
    source = mutated(programs, 7)
    while len(found) < wanted:
        batch = [next(source) for _ in range(400)]
        verdicts = study.oracle.check_many([(t, study.contracts[c]) for c, t in batch])
        found += [p for p, v in zip(batch, verdicts, strict=True) if not v.compliant]
    return found[:wanted]


def refuted(study: Study, pairs: list[tuple[str, str, str]], further: int) -> list[str]:
    found: list[str] = []
    for contract, text, canon in pairs:
        for batch in range(-(-further // BATCH)):
            result = compare(text, canon, study.contracts[contract], BATCH, 1000 + batch, study.pool)
            if not result.equal:
                example = result.counterexample
                found.append(f"{contract}: {example.shown if example else 'undecided'}\n{text}")
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--rejected", type=int, default=2000)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--further", type=int, default=20000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    start = time.perf_counter()
    rows = read_rows(options.data / "dev.jsonl.gz")
    programs = list(dict.fromkeys((r.contract, r.text) for r in rows))
    given = json.loads((options.data / "dev_contracts.json").read_text(encoding="utf-8"))
    canons = {c["contract_id"]: normalise(c["canonical_code"]).text for c in given}
    contracts, others = load_contracts(), list[Program]()
    others += [(c, normalise(t).text) for c, texts in STYLES.items() for t in texts]
    for part in PARTS:
        for contract, texts in tasks(part):
            contracts[contract.id] = contract
            others += [(contract.id, text) for text in texts]
    everything = list(dict.fromkeys([*programs, *others]))
    with SandboxPool(workers=options.workers) as pool:
        study = Study(contracts, pool, options.inputs, options.workers)
        source = mutated(everything, 1)
        tested = [*everything, *(next(source) for _ in range(options.mutants))]
        bad = differing(study, tested, options.inputs, seed=11)
        print(
            f"1. {len(everything)} programs ({len(programs)} recorded) and {options.mutants} mutants on "
            f"{options.inputs} inputs and the oracle: {len(bad)} differ from their normal form",
            flush=True,
        )
        for line in bad:
            print(line)
        wrong = rejected_mutants(study, programs, options.rejected)
        study.prepare(wrong)
        study.prepare(canons.items())
        rescued = [(c, t) for c, t in wrong if study.equivalent(c, t, canons[c])]
        same_form = [(c, t) for c, t in wrong if study.forms[c, t] == study.forms[c, canons[c]]]
        print(
            f"2. {len(wrong)} mutants that the oracle rejects: {len(rescued)} end at distance 0 "
            f"({len(same_form)} would by the rules alone, without asking the oracle)",
            flush=True,
        )
        for contract, text in same_form:
            print(f"{contract}:\n{text}")
        study.prepare(programs)
        pairs = [(c, t, canons[c]) for c, t in programs if not study.rewritten(c, t, canons[c])]
        study.compare(pairs)
        equal = [p for p in pairs if study.equivalent(*p)]
        against = refuted(study, equal, options.further)
        print(
            f"3. {len(equal)} pairs of programs called equivalent, {options.further} further inputs each: "
            f"{len(against)} refuted"
        )
        for line in against:
            print(line)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
