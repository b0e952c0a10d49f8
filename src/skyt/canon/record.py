"""A canon's record: its fields, whether it is whole, and how its contract differs from that of today."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from homeostat.core.config import config_hash
from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract
from skyt.text.signature import signature


class CanonImmutabilityError(UserError):
    """An attempt to change a canon that is already fixed."""


class CanonVersionError(UserError):
    """A canon made under another normalisation or oracle version."""


class CanonRefusedError(UserError):
    """A canon that the oracle rejects, or that was fixed under another contract."""


@dataclass(frozen=True)
class Versions:
    """What a canon's validity is tied to."""

    normalization_version: str
    oracle_version: str


@dataclass(frozen=True)
class Canon:
    """The reference of a prompt, with everything it rests on. The fields are the file's keys."""

    contract_id: str
    canon_signature: str
    oracle_version: str
    normalization_version: str
    fixed_at_timestamp: str
    prompt_id: str
    model: str | None
    temperature: float | None
    function_signatures: list[str]
    constraints_snapshot: dict[str, Any]
    normalized_code: str
    origin: str  # "first_compliant", "modal", "given" or "set"

    @property
    def versions(self) -> Versions:
        return Versions(self.normalization_version, self.oracle_version)


def check_integrity(canon: Canon, where: Path | str) -> None:
    """Refuse a canon whose signature or contract hash does not fit, naming the line where it is a file."""
    if canon.canon_signature != signature(canon.normalized_code):
        raise UserError(
            f"damaged canon {_line(where, 'normalized_code')}: its code does not have its canon_signature "
            f"{canon.canon_signature[:12]}; restore it, or fix a new one with --re-anchor"
        )
    if canon.contract_id != canon.prompt_id:
        raise UserError(
            f"damaged canon {_line(where, 'contract_id')}: contract_id {canon.contract_id!r} with prompt_id "
            f"{canon.prompt_id!r}; restore it"
        )
    snapshot = dict(canon.constraints_snapshot)
    given = snapshot.pop("contract_hash", None)
    if given is not None and given != config_hash(snapshot):
        raise UserError(
            f"damaged canon {_line(where, 'constraints_snapshot')}: the contract in it does not have its "
            f"contract_hash {str(given)[:12]}; restore it, or fix a new one with --re-anchor"
        )


def contract_differences(canon: Canon, contract: Contract) -> list[str]:
    """In which fields the contract of today differs from the one the canon was fixed under.

    The snapshot is read as a contract first: a field that came later has its default in both.
    """
    snapshot = {key: value for key, value in canon.constraints_snapshot.items() if key != "contract_hash"}
    try:
        before = Contract.model_validate(snapshot).model_dump(mode="json")
    except pydantic.ValidationError:
        before = snapshot  # no contract of today's form: compared as it stands
    return list(_differences("", before, contract.model_dump(mode="json")))


def shortened(lines: Sequence[str], most: int = 3) -> str:
    more = len(lines) - most
    return "; ".join(lines[:most]) + (f" (and {more} more)" if more > 0 else "")


_MISSING = object()


def _differences(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*after, *before]):
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(inner, before.get(key, _MISSING), after.get(key, _MISSING))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old = before[at] if at < len(before) else _MISSING
            new = after[at] if at < len(after) else _MISSING
            yield from _differences(f"{path}[{at}]", old, new)
    elif before != after or type(before) is not type(after):
        yield f"{path} was {_shown(before)}, is {_shown(after)}"


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "not there"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(where: Path | str, key: str) -> str:
    """`FILE, line N` of a key; files of canons have one key per line."""
    if not isinstance(where, Path):
        return where
    with where.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if line.lstrip().startswith(f'"{key}":'):
                return f"{where}, line {number}"
    return str(where)
