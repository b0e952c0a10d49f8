"""Whether a program does what its normal form does, by running both in the sandbox on the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.fuzzing.subjects import Subject

from skyt.contracts.contract import Contract, EntryPoint
from skyt.contracts.domain import Call, generate_inputs
from skyt.repair.equivalence.constants import harvested
from skyt.repair.rules import NormalForm, normal_form
from skyt.sandbox.job import Job, Limits, encode_calls
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, expected

CALLS, FROM_CONSTANTS = 30, 30
LIMITS = Limits(call_seconds=0.3, cpu_seconds=1.5)
PATIENT = Limits(call_seconds=3.0, cpu_seconds=15.0, wall_seconds=60.0)
UNFINISHED = {"timeout", "unrun", "crash"}
ENTRY = "observed_call"
# Added to program and normal form alike, after the rules are done: what the call did to its arguments counts
# also where it raises, and an iterator counts by what it gives. Without the entry point it does not load.
OBSERVER = """
{name}
def observed_call(*arguments):
    try:
        result = {name}(*arguments)
        if hasattr(type(result), '__next__'):
            result = ('iterator', [item for _, item in zip(range(60), result)])
        return 'returns', result, arguments
    except RecursionError:
        return 'raises', 'RecursionError'
    except Exception as error:
        return 'raises', type(error).__name__, arguments
"""
OUT_OF_STACK = expected(("raises", "RecursionError")).text


@dataclass(frozen=True)
class Difference:
    """A call on which a program and its normal form differ."""

    call: Call
    shown: str
    program: str
    form: str

    def __str__(self) -> str:
        return f"{self.shown}: {self.program}, normal form {self.form}"


@dataclass(frozen=True)
class Judged:
    subject: Subject
    form: NormalForm
    difference: Difference | None
    ran: bool  # whether the program loads and comes to an end on some call


_GENERATED: dict[str, list[Call]] = {}


def _generated(contract: Contract) -> list[Call]:
    """The contract's own calls, made once in a process."""
    if contract.hash not in _GENERATED:
        _GENERATED[contract.hash] = generate_inputs(contract, CALLS, seed=5)
    return _GENERATED[contract.hash]


def judge(subjects: Sequence[Subject], pool: SandboxPool, extra: Sequence[Call] = ()) -> list[Judged]:
    """Every program compared with its normal form. `extra` are calls to make first."""
    forms = [normal_form(s.code, s.known) for s in subjects]
    changed = [i for i, form in enumerate(forms) if form.trace]
    calls = {i: _calls(subjects[i], forms[i], extra) for i in changed}
    jobs = [_job(subjects[i], text, calls[i]) for i in changed for text in (subjects[i].code, forms[i].text)]
    results = pool.run_many(jobs, LIMITS)
    found: dict[int, Judged] = {}
    for at, i in enumerate(changed):
        before, after = results[2 * at], results[2 * at + 1]
        difference = _first(subjects[i], calls[i], before, after)
        if difference is not None:
            difference = _again(subjects[i], forms[i], calls[i], pool)
        ran = any(result.kind == "value" for result in before)
        found[i] = Judged(subjects[i], forms[i], difference, ran)
    return [found.get(i) or Judged(s, forms[i], None, ran=False) for i, s in enumerate(subjects)]


def compared(
    subject: Subject, form: NormalForm, pool: SandboxPool, extra: Sequence[Call] = ()
) -> Difference | None:
    """The difference between a program and this form of it."""
    calls = _calls(subject, form, extra)
    before, after = pool.run_many([_job(subject, text, calls) for text in (subject.code, form.text)], LIMITS)
    return _first(subject, calls, before, after)


def _calls(subject: Subject, form: NormalForm, extra: Sequence[Call]) -> list[Call]:
    generated = _generated(subject.contract)
    made = harvested(subject.contract, (subject.code, form.text), 5, generated[:40], (FROM_CONSTANTS, 0))
    return [*extra, *generated, *made.near]


def _job(subject: Subject, text: str, calls: Sequence[Call]) -> Job:
    entry = subject.contract.entry_point
    if entry.kind == "class":
        return Job(text, entry, encode_calls(calls))
    observed = text + OBSERVER.replace("{name}", entry.name)
    return Job(observed, EntryPoint(kind="function", name=ENTRY), encode_calls(calls))


def _again(subject: Subject, form: NormalForm, calls: list[Call], pool: SandboxPool) -> Difference | None:
    """The difference with time to spare, if the program agrees with itself."""
    texts = (subject.code, form.text, subject.code)
    first, other, second = pool.run_many([_job(subject, text, calls) for text in texts], PATIENT)
    if _first(subject, calls, first, second) is not None:
        return None
    return _first(subject, calls, first, other)


def _first(
    subject: Subject, calls: Sequence[Call], before: Sequence[CallResult], after: Sequence[CallResult]
) -> Difference | None:
    """The first call with another outcome. A program that does not load, or comes to no end there, has no
    behaviour to keep; objects of the program's own classes cannot be compared, nor texts with addresses, nor
    how far a recursion without end had come."""
    for call, a, b in zip(calls, before, after, strict=True):
        if a.kind in UNFINISHED or a.kind == "unloaded":
            return None
        if '{"o":' in a.text + a.args_after or " object at 0x" in a.text + b.text:
            continue
        if a.text == b.text == OUT_OF_STACK:
            continue
        if a != b:
            return Difference(call, call.show(subject.contract.entry_point.name), a.show(), b.show())
    return None
