"""Stores on SQLite and on PostgreSQL, and made-up samples for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the `serve` extra is not installed")

from tests.support.postgres import postgres

from skyt.canon import Canon, Versions
from skyt.records import Sample
from skyt.records import Versions as RowVersions
from skyt.serve.database.store import Store
from skyt.text.signature import signature

VERSIONS = Versions("1-test", "1-test")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    base: str = request.getfixturevalue("postgres_url")
    import psycopg

    name = f"t{abs(hash(request.node.nodeid))}"
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return base.replace("/postgres?", f"/{name}?")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url, VERSIONS)
    yield opened
    opened.close()


def make_canon(code: str, prompt: str = "gcd", versions: Versions = VERSIONS) -> Canon:
    return Canon(
        contract_id=prompt,
        canon_signature=signature(code),
        oracle_version=versions.oracle_version,
        normalization_version=versions.normalization_version,
        fixed_at_timestamp="2026-01-01T00:00:00.000Z",
        prompt_id=prompt,
        model="m",
        temperature=0.5,
        function_signatures=["gcd(a: int, b: int) -> int"],
        constraints_snapshot={},
        normalized_code=code,
        origin="first_compliant",
    )


def make_sample(code: str, canon: Canon | None, d: float | None = None, prompt: str = "gcd") -> Sample:
    """A sample as the pipeline would have measured it, of a program that no repair changes."""
    same = canon is not None and canon.normalized_code == code
    distance = (0.0 if same else 1.0 if canon is None else 0.25) if d is None else d
    digest = signature(code)
    verdict = {"compliant": same, "failures": [] if same else ["no"], "counterexample": None}
    record = {
        "run_id": "r",
        "sample_id": "000000",
        "prompt_id": prompt,
        "contract_id": prompt,
        "model": "m",
        "temperature": 0.5,
        "sample": 0,
        "raw_output": code,
        "normalized_pre": code,
        "normalized_post": code,
        "parsed": True,
        "signature_pre": digest,
        "signature_post": digest,
        "d_pre": distance,
        "d_post": distance,
        "distance_method": "exact" if canon else "no_canon",
        "evidence": "identical" if same else "none",
        "reason": "made up",
        "repair_steps": [],
        "oracle_pre": verdict,
        "oracle_post": verdict,
        "canon_signature": None if canon is None else canon.canon_signature,
        "equivalence": None,
        **dict(zip(RowVersions._fields, ("1-test", "2-test", "d"), strict=True)),
    }
    return Sample(record, "t")


Maker = Callable[..., Sample]
