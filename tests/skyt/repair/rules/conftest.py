"""The contract of `normal_form` in tests: no form counts before it has been run against its program on
generated inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from benchmarks.red_team import Values

from skyt.contracts.contract import EntryPoint
from skyt.contracts.domain import Call
from skyt.repair.rules import Facts, NormalForm, engine
from skyt.sandbox import Job, Limits, SandboxPool, encode_calls

CALLS = 8
MOST = 60  # forms compared per module of tests; of more, every so-manieth
BRIEF = Limits(call_seconds=0.3, cpu_seconds=1.5)
ENDLESS = {"timeout", "crash", "unrun", "unloaded"}
Form = tuple[str, str, Facts]  # program, normal form, facts


def calls_of(code: str, facts: Facts) -> list[Call]:
    """Calls of a function inside its facts."""
    values = Values(code, seed=1)
    made = [[values.of(p.type, p.min, p.max) for p in facts.parameters] for _ in range(3 * CALLS)]
    full = [m for m in made if all(v or not p.nonempty for p, v in zip(facts.parameters, m, strict=True))]
    return [Call(tuple(arguments)) for arguments in full[:CALLS]]


def different(forms: list[Form]) -> list[str]:
    """The calls that tell a program from its form."""
    made = [calls_of(code, facts) for code, _, facts in forms]
    jobs = [
        Job(text, EntryPoint(kind="function", name=facts.name), encode_calls(calls))
        for (code, form, facts), calls in zip(forms, made, strict=True)
        for text in (code, form)
    ]
    with SandboxPool(workers=1) as pool:
        results = pool.run_many(jobs, BRIEF)
    found = []
    for i, ((code, form, _), calls) in enumerate(zip(forms, made, strict=True)):
        for call, a, b in zip(calls, results[2 * i], results[2 * i + 1], strict=True):
            ended = not {a.kind, b.kind} & ENDLESS and "RecursionError" not in (a.text, b.text)
            if a != b and ended:
                found.append(f"{call}: {a.show()}, normal form {b.show()}\n{code}\n---\n{form}")
                break
    return found


@pytest.fixture(scope="module", autouse=True)
def forms_behave_as_their_programs() -> Iterator[list[Form]]:
    """Every form that the tests of a module make by all rules, compared with its program at the end."""
    made: dict[tuple[str, str], Form] = {}
    run = engine._run

    def compared(context: engine.Context) -> NormalForm:
        code, facts = ast.unparse(context.tree), context.facts
        form = run(context)
        if facts.kind == "function" and form.text != code:
            made.setdefault((code, facts.name), (code, form.text, facts))
        return form

    engine._run = compared
    forms: list[Form] = []
    yield forms
    engine._run = run
    forms += list(made.values())[:: len(made) // MOST + 1]
    assert not (found := different(forms)), "\n\n".join(found)
