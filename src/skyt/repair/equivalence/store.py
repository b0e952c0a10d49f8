"""Verdicts of differential testing kept between runs, so that a second replay tests no pair again.

A verdict is a function of the two programs, the contract, the number of inputs, the seed, the versions of
normalisation and of the test, and the Python that ran it: these make its key. Verdicts that depend on the
machine's mood (calls that came to no end) are not kept. Off unless `$HOMEOSTAT_VERDICTS` names a folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from homeostat.core import atomic
from skyt.contracts.contract import Contract
from skyt.contracts.drawing.cache import drawn_with
from skyt.repair.equivalence.compare import EQUIVALENCE_VERSION, compare_many
from skyt.sandbox.pool import SandboxPool
from skyt.text.normalise import NORMALIZATION_VERSION
from skyt.text.signature import signature

VARIABLE = "HOMEOSTAT_VERDICTS"
Pair = tuple[str, str, Contract]


class VerdictStore:
    """Records of `Equivalence`, one JSON file each. A file that cannot be read counts as absent."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @classmethod
    def from_environment(cls) -> VerdictStore:
        chosen = os.environ.get(VARIABLE)
        return cls(Path(chosen) if chosen else None)

    def path(self, pair: Pair, inputs: int, seed: int) -> Path | None:
        if self.folder is None:
            return None
        code, canon, contract = pair
        versions = [EQUIVALENCE_VERSION, NORMALIZATION_VERSION, drawn_with(), sys.version_info[:3]]
        key = [versions, contract.hash, signature(code), signature(canon), inputs, seed]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.json"

    def find(self, pair: Pair, inputs: int, seed: int) -> dict[str, Any] | None:
        path = self.path(pair, inputs, seed)
        try:
            found = None if path is None else json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("version") == EQUIVALENCE_VERSION else None

    def keep(self, pair: Pair, inputs: int, seed: int, record: dict[str, Any]) -> None:
        path = self.path(pair, inputs, seed)
        decided = record["equal"] or record["counterexample"] is not None
        if path is not None and decided and not record["undecided"] and not record["unreached"]:
            atomic.write_json(path, record)


def compare_once(
    pairs: Sequence[Pair], pool: SandboxPool, inputs: int, seed: int, store: VerdictStore | None = None
) -> list[dict[str, Any]]:
    """Records of all pairs, in order; only those that are not in the store are tested."""
    store = store or VerdictStore.from_environment()
    found = [store.find(pair, inputs, seed) for pair in pairs]
    new = [i for i, record in enumerate(found) if record is None]
    for i, result in zip(new, compare_many([pairs[i] for i in new], pool, inputs, seed), strict=True):
        record = result.as_record()
        found[i] = record
        store.keep(pairs[i], inputs, seed, record)
    return [record for record in found if record is not None]
