"""Which program becomes a prompt's canon, and whether a canon may be used.

A canon is compliant with the contract of today, or it is refused. `trust_canons` accepts it all the same, and
puts on record what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now
from skyt.canon import (
    Canon,
    CanonRefusedError,
    Event,
    Shelf,
    contract_differences,
    shortened,
)
from skyt.canon.history import whoever
from skyt.contracts.contract import Contract
from skyt.oracle.oracle import Verdict
from skyt.runs.judging.assess import prepare, versions
from skyt.text.normalise import normalise
from skyt.text.signature import signature

Policy = Literal["first", "modal"]
Judge = Callable[[Contract, str], Verdict]  # what the oracle says of a program


def new_canon(
    contract: Contract, text: str, *, origin: str, model: str | None, temperature: float | None
) -> Canon:
    entry = contract.entry_point
    current = versions()
    return Canon(
        contract_id=contract.id,
        canon_signature=signature(text),
        oracle_version=current.oracle_version,
        normalization_version=current.normalization_version,
        fixed_at_timestamp=utc_now(),
        prompt_id=contract.id,
        model=model,
        temperature=temperature,
        function_signatures=function_signatures(contract) or [entry.name],
        constraints_snapshot=contract.snapshot(),
        normalized_code=text,
        origin=origin,
    )


def function_signatures(contract: Contract) -> list[str]:
    """The public callables a canon stands for, as the contract declares them."""

    def line(name: str, parameters: Iterable[object], returns: str | None) -> str:
        inside = ", ".join(f"{getattr(p, 'name', '')}: {getattr(p, 'type', '')}" for p in parameters)
        return f"{name}({inside})" + (f" -> {returns}" if returns else "")

    entry = contract.entry_point
    methods = [line(f"{entry.name}.{m.name}", m.parameters, m.returns) for m in entry.methods]
    return [line(entry.name, entry.parameters, entry.returns), *methods]


def faults(canon: Canon, contract: Contract, judge: Judge) -> list[str]:
    """What speaks against using a canon: fields of its contract that changed, and the oracle's reasons."""
    changed = contract_differences(canon, contract)
    found = [f"it was fixed under another contract: {shortened(changed)}"] if changed else []
    verdict = judge(contract, canon.normalized_code)
    if not verdict.compliant:
        found.append(f"the oracle rejects it: {shortened(verdict.failures)}")
    return found


def refuse(canon: Canon, found: Sequence[str], what: str, way_out: str = "") -> CanonRefusedError:
    ways = way_out or "fix a new one with --re-anchor (the old one is archived)"
    return CanonRefusedError(
        f"the canon {canon.canon_signature[:12]} of {canon.prompt_id!r} {what} is refused: "
        f"{'; '.join(found)}; {ways}, or use it as it is with --trust-canons (trust_canons in a "
        f"configuration), which is recorded"
    )


def put_on_record(shelf: Shelf, canon: Canon, found: Sequence[str], who: str | None = None) -> None:
    """That a canon was used in spite of what was found; once per canon and finding."""
    event = Event(
        prompt_id=canon.prompt_id,
        action="trusted",
        canon_signature=canon.canon_signature,
        previous_signature=canon.canon_signature,
        who=who or whoever(),
        why="--trust-canons",
        findings=list(found),
    )
    known = [(e.canon_signature, e.findings) for e in shelf.events(canon.prompt_id) if e.action == "trusted"]
    if (event.canon_signature, event.findings) not in known:
        shelf.note(event)


def trusted_canons(shelf: Shelf, prompts: Iterable[str]) -> dict[str, list[str]]:
    """Prompts whose canon was used in spite of findings, and the findings: for the metrics record."""
    found = {}
    for prompt in prompts:
        events = [event for event in shelf.events(prompt) if event.action == "trusted"]
        if events:
            found[prompt] = events[-1].findings
    return found


def set_canon(
    shelf: Shelf, contract: Contract, code: str, judge: Judge, *, who: str, why: str, trust: bool = False
) -> Canon:
    """Make a program the canon. The old one is archived; the oracle must accept the new one, or `trust`."""
    text = prepare(code, contract).text
    canon = new_canon(contract, text, origin="set", model=None, temperature=None)
    return _install(shelf, canon, contract, judge, "set", who, why, trust)


def approve(
    shelf: Shelf, contract: Contract, judge: Judge, *, who: str, why: str, trust: bool = False
) -> Canon:
    """Confirm the canon there is: it is judged by the contract and the oracle of today.

    Where its versions or its contract are not those of today it is renewed under them, and the old record is
    archived. Otherwise only the approval is put on record.
    """
    old = shelf.read(contract.id)
    if old is None:
        raise UserError(f"{contract.id!r} has no canon to approve; `canon set` makes a program the canon")
    text = normalise(old.normalized_code).text
    changed = contract_differences(old, contract) or old.versions != versions() or text != old.normalized_code
    renewed = old
    if changed:
        fresh = new_canon(contract, text, origin=old.origin, model=old.model, temperature=old.temperature)
        renewed = replace(fresh, fixed_at_timestamp=utc_now())
    return _install(shelf, renewed, contract, judge, "approved", who, why, trust)


def _install(
    shelf: Shelf,
    canon: Canon,
    contract: Contract,
    judge: Judge,
    action: str,
    who: str,
    why: str,
    trust: bool,
) -> Canon:
    if not why.strip() or not who.strip():
        raise UserError("say why (--why TEXT) and who (--who NAME): both are put on record")
    found = faults(canon, contract, judge)
    if found and not trust:
        raise refuse(canon, found, "", "set a program that complies")
    old = shelf.read(contract.id)
    event = Event(
        prompt_id=contract.id,
        action=action,
        canon_signature=canon.canon_signature,
        previous_signature=None if old is None else old.canon_signature,
        who=who,
        why=why,
        findings=found,
    )
    if old == canon:
        shelf.note(event)
    else:
        shelf.replace(canon, event)
    return canon
