"""Fixing the canons of a batch: the one given, the one on record, or an output that the policy chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from skyt.canon import Canon, CanonStore
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import Sample
from skyt.repair.rules import Facts, normal_form
from skyt.runs.canons import Policy, faults, new_canon, put_on_record, refuse
from skyt.runs.judging.assess import prepare
from skyt.runs.judging.pool import JudgePool

Compliant = tuple[str, Generation]  # a program that the oracle accepts, and the output it came from


def fix_canons(
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    pool: JudgePool,
    stores: Sequence[CanonStore],
    given: Mapping[str, str],
    policy: Policy = "first",
) -> dict[str, Canon]:
    """The canon of each prompt that has one; every store holds it afterwards."""
    prompts = list(dict.fromkeys(generation.contract_id for generation in generations))
    brought = {name: _given(contracts[name], given[name]) for name in prompts if name in given}
    trusted = _examined(prompts, contracts, pool, stores[0], brought)
    for canon in brought.values():
        stores[0].set(canon)
    fixed = {name: stores[0].get(name) for name in prompts}
    without = [name for name, canon in fixed.items() if canon is None]
    candidates = [generation for generation in generations if generation.contract_id in without]
    choose = _first_compliant if policy == "first" else _modal
    for name, (text, source) in choose(candidates, contracts, pool).items():
        origin = "first_compliant" if policy == "first" else "modal"
        canon = new_canon(
            contracts[name], text, origin=origin, model=source.model, temperature=source.temperature
        )
        fixed[name] = stores[0].fix(canon)
    canons = {name: canon for name, canon in fixed.items() if canon is not None}
    for name, canon in canons.items():
        for store in stores[1:]:
            store.set(canon)
        if name in trusted:
            put_on_record(stores[-1], canon, trusted[name])
    return canons


def _examined(
    prompts: Sequence[str],
    contracts: Mapping[str, Contract],
    pool: JudgePool,
    store: CanonStore,
    brought: Mapping[str, Canon],
) -> dict[str, list[str]]:
    """Refuse canons with faults, before anything is written, or return the faults that are trusted."""
    trusted = {}
    for name in prompts:
        canon = store.get(name) or brought.get(name)
        found = [] if canon is None else faults(canon, contracts[name], pool.verdict)
        if canon is not None and found and not pool.settings.trust_canons:
            source = "in --canons" if name in brought else f"in {store.path(name)}"
            ways = "bring a compliant one, or leave it out of --canons" if name in brought else ""
            raise refuse(canon, found, source, ways)
        if found:
            trusted[name] = found
    return trusted


def _given(contract: Contract, code: str) -> Canon:
    text = prepare(code, contract).text
    return new_canon(contract, text, origin="given", model=None, temperature=None)


def _first_compliant(
    generations: Sequence[Generation], contracts: Mapping[str, Contract], pool: JudgePool
) -> dict[str, Compliant]:
    """Each prompt's first output that the oracle accepts; those that come next are judged together."""
    chosen: dict[str, Compliant] = {}
    left = {
        name: iter([generation for generation in generations if generation.contract_id == name])
        for name in dict.fromkeys(generation.contract_id for generation in generations)
    }
    while left:
        following = {name: next(outputs, None) for name, outputs in left.items()}
        asked = [output for output in following.values() if output is not None]
        for number, sample in pool.samples(
            [(output, contracts[output.contract_id], None) for output in asked]
        ):
            if sample["oracle_pre"]["compliant"]:
                chosen[asked[number].contract_id] = sample["normalized_pre"], asked[number]
        left = {name: left[name] for name, output in following.items() if output and name not in chosen}
    return chosen


def _modal(
    generations: Sequence[Generation], contracts: Mapping[str, Contract], pool: JudgePool
) -> dict[str, Compliant]:
    """Each prompt's most frequent text within its most frequent normal form among the compliant outputs."""
    samples: dict[int, Sample] = dict(
        pool.samples([(output, contracts[output.contract_id], None) for output in generations])
    )
    compliant: dict[str, list[Compliant]] = {}
    for number, output in enumerate(generations):
        if samples[number]["oracle_pre"]["compliant"]:
            compliant.setdefault(output.contract_id, []).append((samples[number]["normalized_pre"], output))
    return {name: _most_frequent(found, contracts[name]) for name, found in compliant.items()}


def _most_frequent(compliant: Sequence[Compliant], contract: Contract) -> Compliant:
    """Of equally frequent forms and texts the earlier one: Counter keeps the order of first meetings."""
    facts = Facts.from_contract(contract)
    forms = {text: normal_form(text, facts).text for text in dict.fromkeys(text for text, _ in compliant)}
    form = Counter(forms[text] for text, _ in compliant).most_common(1)[0][0]
    text = Counter(text for text, _ in compliant if forms[text] == form).most_common(1)[0][0]
    return text, next(output for other, output in compliant if other == text)
