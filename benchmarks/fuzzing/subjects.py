"""What the fuzzer tests: a program with the contract that says how it is called.

Facts are written as in the tests of the rules, `n: int >= 0 <= 9; xs: list[int]`, about a function `f`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.held_out import PARTS, tasks
from benchmarks.styles import STYLES

from skyt.contracts.contract import Contract, load_contracts
from skyt.repair.rules import RULES, Facts
from skyt.text.extract import extract_code
from skyt.text.normalise import normalise

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "tests" / "data" / "references"
DIFFERENCES = ROOT / "tests" / "data" / "differences.jsonl"  # programs that once differed from their form
SHARED = ROOT.parent / "shared" / "data"
MAX_SEED_CHARS = 2500  # longer programs cost more than they find


@dataclass(frozen=True)
class Subject:
    """A program under test. `facts` is empty where the contract is a real one."""

    title: str
    code: str
    contract: Contract
    facts: str = ""

    @property
    def known(self) -> Facts:
        return Facts.from_contract(self.contract)

    def record(self) -> dict[str, Any]:
        """As one line of a file of programs."""
        record: dict[str, Any] = {"title": self.title, "facts": self.facts, "code": self.code}
        if not self.facts:
            record["contract"] = self.contract.model_dump(mode="json", exclude_none=True)
        return record


def from_facts(title: str, facts: str, code: str) -> Subject:
    return Subject(title, code, contract_of(facts), facts)


def from_record(record: dict[str, Any]) -> Subject:
    if record.get("contract"):
        return Subject(record["title"], record["code"], Contract.model_validate(record["contract"]))
    return from_facts(record["title"], record["facts"], record["code"])


def read_programs(path: Path) -> list[Subject]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [from_record(json.loads(line)) for line in lines if line.strip()]


@lru_cache(maxsize=1024)
def contract_of(facts: str) -> Contract:
    """The contract of a function `f` of which only these facts are known; ValueError for other types."""
    specs: dict[str, Any] = {}
    types: dict[str, str] = {}
    for part in filter(str.strip, facts.split(";")):
        name, _, text = (x.strip() for x in part.partition(":"))
        match = re.fullmatch(r"(\S+)((?:\s*(?:>=|<=)\s*-?\d+)*)", text)
        if match is None:
            raise ValueError(f"facts {part!r}: a type and bounds are wanted")
        bounds = {sign: int(n) for sign, n in re.findall(r"(>=|<=)\s*(-?\d+)", match[2])}
        specs[name] = _spec(match[1]) | ({"min": bounds[">="]} if ">=" in bounds else {})
        specs[name] |= {"max": bounds["<="]} if "<=" in bounds else {}
        types[name] = match[1]
    return Contract.model_validate(
        {
            "id": "fuzz",
            "prompt": "a function f",
            "entry_point": {
                "kind": "function",
                "name": "f",
                "parameters": [{"name": name, "type": type_} for name, type_ in types.items()],
            },
            "domain": {"parameters": specs},
            "oracle": {"cases": [{"args": [None] * len(specs)}]},
        }
    )


def _spec(text: str) -> dict[str, Any]:
    """A parameter's domain from its type: small sizes, since differences show on small values."""
    if text == "int":
        return {"type": "int", "sample_min": -30, "sample_max": 60}
    if text in ("float", "bool"):
        return {"type": text}
    if text == "str":
        return {"type": "str", "sample_length": 10}
    if match := re.fullmatch(r"list\[(.+)\]", text):
        inner = _spec(match[1])
        if inner["type"] == "int":
            inner |= {"sample_min": -5, "sample_max": 12}
        return {"type": "list", "elements": inner, "sample_length": 8}
    if match := re.fullmatch(r"dict\[(int|str),(.+)\]", text):
        return {"type": "dict", "keys": _spec(match[1]), "values": _spec(match[2]), "sample_length": 5}
    raise ValueError(f"the fuzzer makes no values of type {text!r}")


def _bare(contract: Contract) -> Contract:
    """A real contract without what only its oracle needs."""
    oracle = contract.oracle.model_copy(update={"cases": contract.oracle.cases[:1], "properties": ()})
    return contract.model_copy(update={"prompt": "", "oracle": oracle})


def seeds(recorded: bool = True) -> list[Subject]:
    """Real programs to start from: references, other styles, held-out tasks, the rules' own examples,
    programs that once differed, and, where the data are present, programs of others."""
    found = [*_of_contracts(), *_of_rules(), *_of_file(DIFFERENCES)]
    if recorded:
        found += [*_of_file(SHARED / "red_team" / "programs.jsonl"), *_recorded()]
    distinct = {(s.contract.hash, s.code): s for s in found if len(s.code) <= MAX_SEED_CHARS}
    return list(distinct.values())


def _of_contracts() -> Iterator[Subject]:
    contracts = {name: _bare(contract) for name, contract in load_contracts().items()}
    for path in sorted(REFERENCES.glob("*.py")):
        if path.stem in contracts:
            yield Subject(path.stem, normalise(path.read_text(encoding="utf-8")).text, contracts[path.stem])
    for name, texts in STYLES.items():
        for text in texts:
            yield Subject(name, normalise(text).text, contracts[name])
    for part in PARTS:
        for contract, texts in tasks(part):
            bare = _bare(contract)
            yield from (Subject(contract.id, text, bare) for text in texts)


def _of_rules() -> Iterator[Subject]:
    """The programs on which each rule fires, and those on which it must not."""
    for rule in RULES:
        for facts, code in (rule.fires, rule.keeps):
            with contextlib.suppress(ValueError):  # facts without a type
                yield from_facts(rule.name, facts, normalise(code).text)


def _of_file(path: Path) -> Iterator[Subject]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield from_record(json.loads(line))
        except ValueError:
            continue  # facts of a type that the fuzzer makes no values of


def _recorded() -> Iterator[Subject]:
    path = SHARED / "skyt_generations" / "dev.jsonl.gz"
    if not path.exists():
        return
    contracts = {name: _bare(contract) for name, contract in load_contracts().items()}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            text = normalise(extract_code(row["raw_output"]))
            if text.parsed and row["contract_id"] in contracts:
                yield Subject(row["contract_id"], text.text, contracts[row["contract_id"]])
