"""Contracts: what a prompt asks for, in a form that can be checked and reasoned from.

A contract is one YAML file. It names the entry point, the constraints on how it may be written, the input
domain (from which inputs are generated and from which rewriting rules take their facts), the oracle, and what
calls outside the domain must do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml

from homeostat.core.config import ConfigModel, config_hash, parse_config
from homeostat.core.errors import UserError, nearest, unreadable
from homeostat.core.resources import resource_root
from skyt.contracts.equality import Equality
from skyt.contracts.expectations import (
    Arguments,
    Case,
    OperationCase,
    OracleSpec,
    OutOfDomain,
    Property,
    check_syntax,
)
from skyt.contracts.facts import UNKNOWN, Facts, conditions
from skyt.contracts.hints import HintError, spec_of_hint
from skyt.contracts.kinds.numbers import Identifier
from skyt.contracts.literals import read_literal
from skyt.contracts.specs import Domain, Spec
from skyt.text.parsing import parse, parse_expression, undefined

SUFFIXES = (".yaml", ".yml", ".py")

__all__ = [
    "Arguments",
    "Case",
    "Constraints",
    "Contract",
    "Domain",
    "EntryPoint",
    "Facts",
    "Method",
    "OperationCase",
    "OracleSpec",
    "OutOfDomain",
    "Parameter",
    "Property",
    "Spec",
    "load_contract",
    "load_contracts",
    "read_contract",
    "read_contracts",
]


class Parameter(ConfigModel):
    """A parameter of the entry point; its type is a Python annotation such as `list[int]`.

    `default` is a Python literal: callers may leave the parameter out. What a program then takes its value to
    be is the program's affair, so the domain says nothing about it. `keyword_only` ones are passed by name.
    """

    name: Identifier
    type: str
    default: str | None = None
    keyword_only: bool = False

    @pydantic.field_validator("default")
    @classmethod
    def _is_literal(cls, text: str | None) -> str | None:
        if text is not None:
            read_literal(text)
        return text


class Method(ConfigModel):
    """A public method of a class entry point."""

    name: Identifier
    parameters: tuple[Parameter, ...] = ()
    returns: str | None = None


class EntryPoint(ConfigModel):
    """The public name a caller uses: a function, or a class with its constructor and methods.

    `gives` says what a call of a function gives: a value, a generator (its items are collected), or a
    coroutine (it is run). `returns` is then the annotation of the generator, or of what the coroutine
    returns.
    """

    kind: Literal["function", "class"]
    name: Identifier
    parameters: tuple[Parameter, ...] = ()
    returns: str | None = None
    gives: Literal["value", "generator", "coroutine"] = "value"
    methods: tuple[Method, ...] = ()

    @pydantic.model_validator(mode="after")
    def _methods_belong_to_classes(self) -> EntryPoint:
        if (self.kind == "class") != bool(self.methods):
            raise ValueError("a class needs `methods`, a function has none")
        if self.kind == "class" and self.gives != "value":
            raise ValueError("`gives` is for functions: a call of a class gives an object")
        return self

    @pydantic.model_validator(mode="after")
    def _callable(self) -> EntryPoint:
        for parameters in (self.parameters, *(method.parameters for method in self.methods)):
            kinds = [(p.keyword_only, not p.keyword_only and p.default is not None) for p in parameters]
            if kinds != sorted(kinds):
                raise ValueError("parameters with a default come after those without, keyword-only ones last")
        return self

    @property
    def public_names(self) -> frozenset[str]:
        """Names a caller may rely on; everything else may be renamed."""
        return frozenset({self.name, *(m.name for m in self.methods)})

    def method(self, name: str) -> Method:
        for method in self.methods:
            if method.name == name:
                return method
        raise UserError(
            f"{self.name} has no method {name!r}; {nearest(name, (m.name for m in self.methods))}"
        )


class Constraints(ConfigModel):
    """How the program may be written. Imports not listed are violations (`typing` and `__future__` are free).

    References to a name in `forbidden_calls` are violations, unless the name is the program's own. Both are
    read off the text and enforced while the program runs. `imports: ["*"]` allows everything that the sandbox
    has, and running text as code; the walls of the sandbox stand all the same.

    `naming: lenient` means that callers pass arguments by position, so parameter names are not public.
    `reads` bounds how many elements of its list arguments a listed call may read, slices not counted: a
    search that is to be binary does not look at all of them.
    """

    recursion: Literal["required", "forbidden", "any"] = "any"
    imports: tuple[str, ...] = ()
    naming: Literal["strict", "lenient"] = "lenient"
    forbidden_calls: tuple[str, ...] = ()
    reads: pydantic.PositiveInt | None = None


class Contract(ConfigModel):
    """One prompt and everything that can be held against its outputs."""

    id: Annotated[str, pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    prompt: str
    entry_point: EntryPoint
    constraints: Constraints = Constraints()
    domain: Domain = Domain()
    oracle: OracleSpec = OracleSpec()
    out_of_domain: OutOfDomain = OutOfDomain()
    evidence: Literal["rewritten", "equivalent"] | None = pydantic.Field(
        None, description="minimum evidence for replacing an output; none: as the run says"
    )

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Contract:
        if not self.oracle.decides:
            raise ValueError(
                "a contract needs oracle cases, or a property and inputs: without them nothing can be called "
                "compliant"
            )
        check_syntax(parse, self.domain.setup, "is not Python")
        if self.domain.where is not None:
            check_syntax(parse_expression, self.domain.where.strip(), "is not an expression")
        entry = self.entry_point
        self._fill_in_specs()
        _same_names(self.domain.parameters, entry.parameters, "domain.parameters")
        _same_names(self.domain.methods, entry.methods, "domain.methods")
        for method in entry.methods:
            _same_names(self.domain.methods[method.name], method.parameters, f"domain.methods.{method.name}")
        for case in [*self.oracle.cases, *self.oracle.inputs, *self.out_of_domain.calls]:
            if (case.operations is not None) != (entry.kind == "class"):
                raise ValueError("cases of a class have `operations`, cases of a function have none")
        self._check_names()
        object.__setattr__(self, "oracle", self._coerced(self.oracle))
        return self

    def _check_names(self) -> None:
        """Refuse an expression with a name that nothing defines: it would be false for every program."""
        own = [*self.domain.parameters, *(["operations"] if self.entry_point.kind == "class" else [])]
        expressions = [("domain.where", self.domain.where, self.domain.setup, own)]
        for prop in self.oracle.properties:
            where, later = f"property {prop.name!r}", ["again"] if prop.then is not None else []
            expressions += [
                (f"{where}: when", prop.when, prop.setup, own),
                (f"{where}: then", prop.then, prop.setup, [*own, "result"]),
                (f"{where}: holds", prop.holds, prop.setup, [*own, "result", *later]),
            ]
        for where, text, setup, names in expressions:
            for unknown in undefined(text or "None", names, setup)[:1]:
                raise ValueError(
                    f"{where}: {unknown!r} in {text!r} is not defined; {nearest(unknown, names)}"
                )

    def _coerced(self, oracle: OracleSpec) -> OracleSpec:
        """The oracle with lists made tuples and sets where the domain or the result's annotation says so."""
        domain, returns = self.domain, self.entry_point.returns
        try:
            result = None if returns is None else spec_of_hint(returns)
        except HintError:
            result = None

        def call(listed: Arguments) -> Any:
            args, kwargs = domain.coerced(listed.args, listed.kwargs)
            operations = listed.operations and tuple(
                op.model_copy(update={"args": domain.coerced(op.args, {}, op.method)[0]})
                for op in listed.operations
            )
            new = {"args": args, "kwargs": kwargs, "operations": operations}
            if result is not None and isinstance(listed, Case):
                new["returns"] = result.coerced(listed.returns)
            return listed.model_copy(update=new)

        calls = {"cases": tuple(map(call, oracle.cases)), "inputs": tuple(map(call, oracle.inputs))}
        return oracle.model_copy(update=calls)

    def _fill_in_specs(self) -> None:
        """Parameters without a spec get that of their annotation."""
        domain, entry = self.domain, self.entry_point

        def filled(written: Mapping[str, Spec], wanted: tuple[Parameter, ...]) -> dict[str, Spec]:
            missing = {p.name: spec_of_hint(p.type, p.name) for p in wanted if p.name not in written}
            extra = {name: spec for name, spec in written.items() if name not in {p.name for p in wanted}}
            return {p.name: written[p.name] if p.name in written else missing[p.name] for p in wanted} | extra

        methods = {m.name: filled(domain.methods.get(m.name, {}), m.parameters) for m in entry.methods}
        unknown = {name: specs for name, specs in domain.methods.items() if name not in methods}
        new = {"parameters": filled(domain.parameters, entry.parameters), "methods": methods | unknown}
        object.__setattr__(self, "domain", domain.model_copy(update=new))

    @cached_property
    def continued(self) -> bool:
        """Whether the prompt is code that a model continues, so that the end of an output may be anything."""
        try:
            return bool(parse(self.prompt).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    @property
    def request(self) -> str:
        """What a model is asked: the prompt, or, where that is code, to complete it."""
        if not self.continued:
            return self.prompt
        return (
            "Complete this Python code. Answer with the whole program in one code block, no examples.\n\n"
            f"```python\n{self.prompt.strip()}\n```"
        )

    @cached_property
    def equality(self) -> Equality:
        """When two results of this contract's entry point count as equal."""
        spec = self.oracle
        return Equality(spec.ordered, False, spec.atol, spec.rtol, plain=spec.equality == "python")

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the whole contract: part of every cache key."""
        return config_hash(self)

    def promised(self, value: Any) -> str:
        """The text of the result of a call that gives this value, is a generator of it, or a coroutine."""
        text = self.equality.dumps(value)
        return {"value": text, "generator": f'{{"g":{text}}}', "coroutine": f'{{"a":{text}}}'}[
            self.entry_point.gives
        ]

    def snapshot(self) -> dict[str, Any]:
        """The contract as plain JSON, for the canon file."""
        return {**self.model_dump(mode="json"), "contract_hash": self.hash}

    def facts(self, method: str | None = None) -> dict[str, Facts]:
        """Facts by parameter name, of the function (or constructor), or of a method.

        There are none about a parameter that callers may leave out: its value is then the program's own.
        """
        entry = self.entry_point if method is None else self.entry_point.method(method)
        specs = self.domain.parameters if method is None else self.domain.methods[method]
        return {
            p.name: specs[p.name].facts if p.default is None else Facts(type=UNKNOWN)
            for p in entry.parameters
        }

    def preconditions(self, method: str | None = None) -> list[str]:
        """The facts as Python conditions, for people: `isinstance(n, int)`, `n >= 0`."""
        return [line for name, facts in self.facts(method).items() for line in conditions(name, facts)]


def load_contracts(extra: Path | None = None) -> dict[str, Contract]:
    """All contracts by id: those that come with the program (the easy ones too) and the user's, which win."""
    contracts: dict[str, Contract] = {}
    folders = [resource_root() / "contracts", resource_root() / "contracts" / "easy"]
    if extra is not None:
        folders.append(Path(extra))
    for folder in folders:
        contracts |= read_contracts(folder)
    return contracts


def read_contracts(folder: Path) -> dict[str, Contract]:
    """The contracts of one folder by id."""
    if not folder.is_dir():
        what = "is a file, not a folder of contracts" if folder.exists() else "no such folder of contracts"
        raise UserError(f"{folder}: {what}")
    contracts: dict[str, Contract] = {}
    paths: dict[str, Path] = {}
    for path in sorted(path for suffix in SUFFIXES for path in folder.glob(f"[!_]*{suffix}")):
        contract = read_contract(path)
        if contract.id in paths:
            raise UserError(f"{path}: the id {contract.id!r} is already taken by {paths[contract.id].name}")
        paths[contract.id] = path
        contracts[contract.id] = contract
    return contracts


def load_contract(contract_id: str, extra: Path | None = None) -> Contract:
    """One contract by its id, or by the path of its file."""
    if contract_id.endswith(SUFFIXES) and Path(contract_id).is_file():
        return read_contract(Path(contract_id))
    named = None if extra is None else Path(extra) / f"{contract_id}.yaml"
    if named is not None and named.is_file() and (contract := read_contract(named)).id == contract_id:
        return contract  # imported folders are large
    contracts = load_contracts(extra)
    if contract_id not in contracts and (contract_id.endswith(SUFFIXES) or "/" in contract_id):
        raise UserError(f"no such file or folder: {contract_id}")
    if contract_id not in contracts:
        raise UserError(f"unknown contract {contract_id!r}; {nearest(contract_id, contracts)}")
    return contracts[contract_id]


def read_contract(path: Path) -> Contract:
    """Read and check one contract file, in YAML or in Python."""
    if path.suffix == ".py":
        from skyt.contracts.importers.python_file import read_python

        return read_python(path)
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {str(error).replace(chr(10), ' ')}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: a contract is a mapping of keys to values")
    _read_inputs(raw, path)
    return parse_config(Contract, raw, source=str(path))


def _read_inputs(raw: dict[str, Any], path: Path) -> None:
    """`oracle.inputs` may name a JSON file beside the contract, with a list of argument lists."""
    oracle = raw.get("oracle")
    if not isinstance(oracle, dict) or not isinstance(oracle.get("inputs"), str):
        return
    file = path.parent / oracle["inputs"]
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: oracle.inputs: {unreadable(file, error)}") from None
    except ValueError as error:
        raise UserError(f"{path}: oracle.inputs: {file.name} is not JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise UserError(f"{path}: oracle.inputs: {file.name} is not a list of argument lists")
    raw["oracle"] = {**oracle, "inputs": [{"args": row} for row in rows]}


def _same_names(
    described: Mapping[str, Any], wanted: tuple[Parameter, ...] | tuple[Method, ...], where: str
) -> None:
    names = [item.name for item in wanted]
    if list(described) != names:
        raise ValueError(f"{where} must describe {names}, not {list(described)}")
