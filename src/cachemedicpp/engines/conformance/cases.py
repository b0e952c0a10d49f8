"""Round trips of blocks, and what must hold after each: answers, bytes of reused blocks, and that any were.

A case is a generator over a `Trip`; every answer it asks for is compared with the cold one, of an engine with
the same settings and an empty store.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cachemedicpp.engines.campaign.run import model_folder
from cachemedicpp.engines.conformance.subjects import PLANTED, SUBJECTS, Job, Session
from homeostat.core.errors import UserError, nearest
from homeostat.core.models import catalogue
from homeostat.core.models.fetching import installed

DTYPES = ("float32", "bfloat16", "float16")
Check = tuple[dict[str, Any], list[int], bool]  # an answer, its prompt, and whether blocks must be reused


@dataclass
class Trip:
    """One case under way: a folder for the engine's store, and engines that come and go."""

    job: Job
    prompts: list[list[int]]
    sessions: list[Session] = field(default_factory=list)

    def engine(self, **changed: Any) -> Session:
        """The engine, started again over the same store; the one before it is gone."""
        self.stop()
        self.sessions.append(Session(replace(self.job, **changed)))
        return self.sessions[-1]

    def stop(self) -> None:
        for session in self.sessions:
            session.close()
        self.sessions.clear()

    def files(self) -> list[Path]:
        self.stop()
        return sorted(path for path in Path(self.job.folder).rglob("*") if path.is_file())


def _hit(trip: Trip) -> Iterator[Check]:
    engine, prompt = trip.engine(), trip.prompts[0]
    engine.ask(prompt)
    yield engine.ask(prompt), prompt, True


def _reloaded(trip: Trip) -> Iterator[Check]:
    engine, prompt = trip.engine(), trip.prompts[0]
    engine.ask(prompt)
    engine.forget()
    yield engine.ask(prompt), prompt, True


def _transferred(trip: Trip) -> Iterator[Check]:
    trip.engine().ask(trip.prompts[0])
    yield trip.engine().ask(trip.prompts[0]), trip.prompts[0], True


def _shared_in_part(trip: Trip) -> Iterator[Check]:
    first, inside, between, _ = trip.prompts
    trip.engine().ask(first)
    engine = trip.engine()
    yield engine.ask(inside), inside, True
    yield engine.ask(between), between, True
    yield engine.ask(first), first, True


def _evicted(trip: Trip) -> Iterator[Check]:
    engine, (first, *_, other) = trip.engine(), trip.prompts
    engine.ask(first)
    for number in range(12):
        engine.ask([number + 5, *other])
    yield engine.ask(first), first, False


def _aborted(trip: Trip) -> Iterator[Check]:
    """What a writer leaves that is killed and did not write beside the place."""
    trip.engine().ask(trip.prompts[0])
    for path in trip.files()[::2]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    yield trip.engine().ask(trip.prompts[0]), trip.prompts[0], False


def _flipped(trip: Trip) -> Iterator[Check]:
    trip.engine().ask(trip.prompts[0])
    for path in trip.files():
        data = bytearray(path.read_bytes())
        for place in range(len(data) // 3, len(data), 97):
            data[place] ^= 0x40
        path.write_bytes(data)
    yield trip.engine().ask(trip.prompts[0]), trip.prompts[0], False


def _other(**changed: Callable[[Job], Any]) -> Callable[[Trip], Iterator[Check]]:
    def case(trip: Trip) -> Iterator[Check]:
        trip.engine(**{name: value(trip.job) for name, value in changed.items()}).ask(trip.prompts[0])
        yield trip.engine().ask(trip.prompts[0]), trip.prompts[0], False

    return case


CASES: dict[str, Callable[[Trip], Iterator[Check]]] = {
    "hit": _hit,
    "reloaded": _reloaded,
    "transferred": _transferred,
    "shared-in-part": _shared_in_part,
    "evicted": _evicted,
    "aborted-write": _aborted,
    "flipped-bits": _flipped,
    "other-dtype": _other(dtype=lambda job: "bfloat16" if job.dtype != "bfloat16" else "float16"),
    "other-block-size": _other(block=lambda job: job.block * 2),
    "other-version": _other(version=lambda job: "another"),
}


def jobs(
    engine: str,
    connector: str,
    model: str,
    dtypes: Sequence[str],
    blocks: Sequence[int],
    names: Sequence[str],
    planted: str,
) -> Iterator[tuple[Job, tuple[str, ...]]]:
    """What a command line asks for, checked."""
    given = [(engine, SUBJECTS), (planted or "layout", PLANTED), *((name, CASES) for name in names)]
    for value, known in [*given, *((dtype, DTYPES) for dtype in dtypes)]:
        if value not in known:
            raise UserError(f"{value!r}: {nearest(value, known)}")
    if planted and engine != "transformers":
        raise UserError(f"--planted {planted}: faults are planted in --engine transformers only")
    if engine == "llama.cpp":
        found = installed(catalogue.known(catalogue.DEFAULT_MODEL)) if not model else Path(model)
        if found is None or not found.is_file():
            raise UserError(f"model {model!r}: llama.cpp needs a GGUF file")
        model = str(found)
    else:
        model = model_folder(model or catalogue.DEFAULT_MODEL)
    usual = (32,) if engine == "vllm" else (16,)
    for dtype, block in itertools.product(dtypes or ("float32",), blocks or usual):
        yield Job(engine, model, dtype, block, connector, planted=planted), tuple(names or CASES)


def line(row: dict[str, Any]) -> str:
    """A row for people: what was tried, how it went, and how to repeat it."""
    tried = f"{row['engine']} {row['connector']} {row['dtype']} {row['block']:3} {row['case']:17}"
    if row["passed"]:
        return f"{tried} passed, {row['reused']} tokens reused"
    parts = [f"--engine {row['engine']} --case {row['case']} --dtype {row['dtype']} --block {row['block']}"]
    parts += [f"--{name} {row[name]}" for name in ("connector", "planted") if row[name]]
    again = f"homeostat engine conformance {' '.join(parts)}"
    return f"{tried} FAILED: {'; '.join(dict.fromkeys(row['wrong']))}\n    {again}"


def prompts(block: int) -> list[list[int]]:
    """A prompt of five blocks and a bit, one that leaves it inside a block, one between two, and another."""
    draw = random.Random(7)
    first, other = ([draw.randrange(10, 40_000) for _ in range(5 * block + 3)] for _ in range(2))
    inside, between = 2 * block + block // 2, 3 * block
    return [first, first[:inside] + other[inside:], first[:between] + other[between:], other]


def conform(job: Job, names: tuple[str, ...], say: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """A row for every case: whether it passed, and what was wrong."""
    rows, texts = [], prompts(job.block)
    cold: dict[tuple[int, ...], dict[str, Any]] = {}
    for name in names:
        row: dict[str, Any] = {**asdict(job), "case": name, "wrong": [], "reused": 0}
        with tempfile.TemporaryDirectory(prefix="homeostat-trip-") as folder:
            trip = Trip(replace(job, folder=folder), texts)
            try:
                for answer, prompt, must in CASES[name](trip):
                    right = cold.get(tuple(prompt)) or _cold(job, prompt)
                    cold[tuple(prompt)] = right
                    row["wrong"] += _differences(answer, right, must)
                    row["reused"] += answer["cached"]
            except (EOFError, RuntimeError) as error:
                row["wrong"].append(f"the engine failed: {error}")
            finally:
                trip.stop()
        row["passed"] = not row["wrong"]
        say(row)
        rows.append(row)
    return rows


def _cold(job: Job, prompt: list[int]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="homeostat-trip-") as folder:
        session = Session(replace(job, folder=folder, planted=""))
        try:
            return session.ask(prompt)
        finally:
            session.close()


def _differences(answer: dict[str, Any], cold: dict[str, Any], must: bool) -> list[str]:
    found = []
    if answer["tokens"] != cold["tokens"]:
        pairs = itertools.zip_longest(answer["tokens"], cold["tokens"])
        at = next(i for i, (a, b) in enumerate(pairs) if a != b)
        found.append(f"the answer differs from the cold one at token {at}")
    blocks = [i for i, (a, b) in enumerate(zip(answer["blocks"], cold["blocks"], strict=False)) if a != b]
    reused = [i for i in blocks if i < answer["reused"]]
    if reused:
        found.append(f"reused blocks {reused} are not those that were computed")
    if must and not answer["cached"]:
        found.append("nothing was reused, so nothing was tried")
    return found
