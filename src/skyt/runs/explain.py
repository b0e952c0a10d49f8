"""`homeostat code explain`: the steps from a sample to its canon, or a call on which the two differ."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from homeostat.core.records import Record, read_record
from skyt.contracts.contract import Contract
from skyt.contracts.defaults import DEFAULT_INPUTS
from skyt.contracts.domain import Call
from skyt.repair.rules import Applied, Facts, NormalForm, normal_form
from skyt.runs.diff import find_sample
from skyt.sandbox.pool import SandboxPool

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_explanation(run_dir: Path, wanted: str, console: Console | None = None) -> None:
    """Explain one sample of a run from its records; rules are applied again, and calls made again where
    needed."""
    console = console or Console()
    sample = find_sample(run_dir, wanted)
    _say(
        console,
        f"sample {sample['sample_id']} · {sample['prompt_id']} · {sample['model']} · "
        f"d {sample['d_pre']:.3f} → {sample['d_post']:.3f} · evidence {sample['evidence']}",
        "bold",
    )
    _say(console, str(sample["reason"]))
    if sample["canon_signature"] is None:
        return
    canon = read_record(run_dir / "canon" / f"{sample['prompt_id']}.json", "canon")
    contract = _contract(canon)
    facts = Facts.from_contract(contract)
    texts = sample["normalized_pre"], canon["normalized_code"]
    forms = [normal_form(str(text), facts, steps=True) for text in texts]
    if sample["evidence"] == "identical":
        return
    _show_steps(console, "sample", forms[0])
    if forms[0].text == forms[1].text:
        _show_steps(console, "canon", forms[1])
        _say(console, "\nBoth have the normal form", "bold")
        _say(console, forms[0].text)
    else:
        _say(console, "\nThe normal forms differ", "bold")
        _show_diff(console, forms[0].text, forms[1].text, "sample", "canon")
    with SandboxPool(workers=1) as pool:
        if not sample["oracle_pre"]["compliant"]:
            _show_refusal(console, sample, contract, pool)
        _show_difference(console, sample, str(canon["normalized_code"]), contract, pool)


def _contract(canon: Record) -> Contract:
    """The contract as it was when the canon was fixed."""
    snapshot = {k: v for k, v in canon["constraints_snapshot"].items() if k != "contract_hash"}
    return Contract.model_validate(snapshot)


def _show_steps(console: Console, name: str, form: NormalForm) -> None:
    if form.failure:
        _say(console, f"\nNo rules were applied to the {name}: {form.failure}", "bold")
        return
    _say(console, f"\n{len(form.trace)} steps from the {name} to its normal form", "bold")
    for number, step in enumerate(form.trace, 1):
        _say(console, f"{number}. {step.rule}", "bold cyan")
        _show_step(console, step)


def _show_step(console: Console, step: Applied) -> None:
    lines = difflib.unified_diff(step.before.splitlines(), step.after.splitlines(), n=0, lineterm="")
    for line in list(lines)[2:]:
        if not line.startswith("@"):
            _say(console, f"   {line[0]} {line[1:]}", _STYLES[line[0]])


def _show_diff(console: Console, a: str, b: str, name: str, other: str) -> None:
    for line in difflib.unified_diff(a.splitlines(), b.splitlines(), name, other, n=2, lineterm=""):
        _say(console, line, _STYLES.get(line[:1], ""))


def _show_refusal(console: Console, sample: Record, contract: Contract, pool: SandboxPool) -> None:
    """Why the oracle refuses a sample, with the smallest call that shows it."""
    from skyt.oracle.oracle import Oracle

    verdict = Oracle(pool).smallest(str(sample["normalized_pre"]), contract)
    _say(console, "\nThe oracle refuses the sample", "bold")
    example = verdict.counterexample
    if example is None:
        for line in verdict.failures:
            _say(console, f"   {line}")
        return
    _say(console, f"   {example['shown']}", "bold")
    _say(console, f"   gives    {example['got']}")
    _say(console, f"   expected {example['expected']}")


def _show_difference(
    console: Console, sample: Record, canon: str, contract: Contract, pool: SandboxPool
) -> None:
    """The counterexample on record, or one found now, made as small as it goes."""
    from skyt.repair.equivalence import compare

    text = str(sample["normalized_pre"])
    found: dict[str, Any] | None = sample.get("equivalence")
    if found is None:
        found = compare(text, canon, contract, DEFAULT_INPUTS, pool=pool).as_record()
    _say(console, "")
    example = found["counterexample"]
    if example is not None:
        example = _smallest(text, canon, contract, example, pool)
        where = (
            ""
            if example["domain"] == "inside"
            else " (outside the domain, where the contract's policy binds)"
        )
        _say(console, f"They differ on {example['shown']}{where}", "bold")
        _say(console, f"   sample: {example['program']}")
        _say(console, f"   canon:  {example['canon']}")
        return
    _say(
        console,
        f"No difference on {found['inputs']} calls (seed {found['seed']}): tested, not proved",
        "bold",
    )
    if found["outside"] is not None:
        other = found["outside"]
        _say(
            console,
            f"Outside the domain they differ: {other['shown']}: {other['program']}, canon {other['canon']}",
        )


def _smallest(
    text: str, canon: str, contract: Contract, example: dict[str, Any], pool: SandboxPool
) -> dict[str, Any]:
    from skyt.repair.equivalence import Counterexample
    from skyt.repair.equivalence.smallest import smallest_difference

    known = Counterexample(**{**example, "call": Call.from_json(example["call"])})
    return smallest_difference(text, canon, contract, known, pool).as_record()


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
