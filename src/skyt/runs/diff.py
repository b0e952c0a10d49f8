"""`homeostat code diff`: one sample against its canon, before and after repair."""

from __future__ import annotations

import difflib
from pathlib import Path

from rich.console import Console
from rich.text import Text

from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record
from skyt.records import RunStore

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def find_sample(run_dir: Path, wanted: str) -> Record:
    """A sample's record by its sample_id; leading zeros may be left out."""
    with RunStore.existing(run_dir) as store:
        found = store.find(int(wanted)) if wanted.strip().isdecimal() else None
        count = store.count()
    if found is None:
        known = f"they go from 0 to {count - 1}" if count else "it has none"
        raise UserError(f"no sample {wanted!r} in {run_dir}: {known}")
    return found.record


def show_diff(run_dir: Path, wanted: str, console: Console | None = None) -> None:
    """How the sample differs from the canon before repair, and what is left of that after it."""
    console = console or Console()
    sample = find_sample(run_dir, wanted)
    head = (
        f"sample {sample['sample_id']} · {sample['prompt_id']} · {sample['model']} · "
        f"t={sample['temperature']:g} · d {sample['d_pre']:.3f} → {sample['d_post']:.3f} · "
        f"evidence {sample['evidence']} ({sample['reason']})"
    )
    console.print(Text(head, style="bold"), soft_wrap=True)
    for failure in sample["oracle_pre"]["failures"]:
        console.print(Text(f"oracle: {failure}"), soft_wrap=True)
    canon_path = run_dir / "canon" / f"{sample['prompt_id']}.json"
    if sample["canon_signature"] is None:
        console.print("no canon: no output of this prompt was compliant")
        return
    canon = str(read_record(canon_path, "canon")["normalized_code"])
    _print(console, sample["normalized_pre"], canon, "before repair", "canon")
    if sample["normalized_post"] != sample["normalized_pre"] and sample["d_post"] > 0:
        _print(console, sample["normalized_post"], canon, "after repair", "canon")
    elif sample["d_pre"] > 0 and sample["d_post"] == 0:
        console.print("after repair: the canon's text")


def _print(console: Console, text: str, canon: str, name: str, other: str) -> None:
    lines = list(difflib.unified_diff(text.splitlines(), canon.splitlines(), name, other, n=3, lineterm=""))
    if not lines:
        console.print(f"{name}: the canon's text")
    for line in lines:
        console.print(Text(line, style=_STYLES.get(line[:1], "")), soft_wrap=True)
