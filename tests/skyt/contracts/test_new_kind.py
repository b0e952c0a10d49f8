"""A new kind of values, or a new kind of generator, is one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMPLEX = '''
from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from skyt.contracts.kinds.kind import Choose, Kind, SearchStrategy, st


class ComplexSpec(Kind):
    """Complex numbers with whole parts."""

    hints: ClassVar = ("complex",)
    values_of: ClassVar = complex
    type: Literal["complex"] = "complex"

    def fits(self, value: Any) -> bool:
        return type(value) is complex and math.isfinite(value.real) and math.isfinite(value.imag)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        return st.builds(complex, st.integers(-9, 9), st.integers(-9, 9))

    def candidates(self) -> list[Any]:
        return [0j, 1 + 0j, 1j]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return value if choose(1, 1) else 0j
'''
CONTRACT = """
import ast, sys
import skyt.contracts.kinds
skyt.contracts.kinds.__path__.append(sys.argv[1])

from homeostat.core.config import parse_config
from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, generate_inputs, in_domain
from skyt.contracts.drawing.near import near
from skyt.contracts.drawing.smaller import smallest
from skyt.contracts.hints import spec_of
from skyt.contracts.importers import as_yaml

def contract(type_, spec):
    raw = {"id": "f", "prompt": "", "oracle": {"cases": [{"args": [[{"python": "1+2j"}]], "returns": 0}]}}
    raw["entry_point"] = {"kind": "function", "name": "f", "parameters": [{"name": "x", "type": type_}]}
    raw["domain"] = {"parameters": {"x": spec}} if spec else {}
    return parse_config(Contract, raw, "here")

hinted = contract("list[complex]", None)
written = contract("object", {"type": "list", "elements": {"type": "complex"}})
assert hinted.domain == written.domain and "type: complex" in as_yaml(written)
assert written.oracle.cases[0].args == ([1 + 2j],)
calls = generate_inputs(written, 30, 1)
assert len({repr(call) for call in calls}) == 30 and all(in_domain(written, call) for call in calls)
assert all(Call.from_json(call.to_json()) == call for call in calls)
assert not in_domain(written, Call(([1.0],)))
assert smallest(written, Call(([1j, 3 + 2j],)), lambda call: len(call.args[0]) > 0).args == ([0j],)
assert spec_of([[1j], [2j]]).elements.type == "complex"
assert spec_of([], ast.parse("complex").body[0].value).type == "complex"
assert Contract.model_json_schema()["$defs"]["ComplexSpec"]["properties"]["type"]["const"] == "complex"
"""
ECHO = '''
from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal

from skyt.generators.base import Failure, Output, Request, Source


class EchoGenerator(Source):
    """Answers with the prompt."""

    kind: Literal["echo"]
    name: str = "echo"

    def make(self) -> EchoGenerator:
        return self

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        for request in requests:
            yield Output(request, request.prompt)
'''
RUN = """
import sys
from pathlib import Path
import skyt.generators
skyt.generators.__path__.append(sys.argv[1])

from homeostat.core.config import load_config
from skyt.runs.config import RunConfig
from skyt.runs.generate import CellJob, collect

config = load_config(RunConfig, {"contract": "gcd"}, ["generator.kind=echo"])
job = CellJob(path=Path(sys.argv[1]) / "outputs.jsonl", generator=config.generator, contract_id="gcd",
              prompt="hello", temperature=0.7, n=2, seed=0)
assert collect(job, config.generator.make()) == []
assert job.path.read_text().count("hello") == 2
"""


def _works(folder: Path, source: str, use: str) -> None:
    (folder / "mine.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-c", use, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_new_kind_of_values_is_one_file(tmp_path: Path) -> None:
    _works(tmp_path, COMPLEX, CONTRACT)


def test_a_new_kind_of_generator_is_one_file(tmp_path: Path) -> None:
    _works(tmp_path, ECHO, RUN)
