from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from homeostat.core.errors import UserError
from skyt.canon import Canon, CanonImmutabilityError, CanonStore, CanonVersionError, Versions
from skyt.text.signature import signature

VERSIONS = Versions("1-py3.11", "1")


def make(text: str, prompt: str = "gcd", versions: Versions = VERSIONS) -> Canon:
    return Canon(
        contract_id=prompt,
        canon_signature=signature(text),
        oracle_version=versions.oracle_version,
        normalization_version=versions.normalization_version,
        fixed_at_timestamp="2026-01-01T00:00:00.000Z",
        prompt_id=prompt,
        model="m",
        temperature=0.7,
        function_signatures=["gcd(a: int, b: int)"],
        constraints_snapshot={"id": prompt},
        normalized_code=text,
        origin="first_compliant",
    )


def _race(folder: Path, number: int, gate: object, seen: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    text = f"def gcd(a, b):\n    return {number}" + "\n# " + "x" * 20_000
    fixed = CanonStore(folder, VERSIONS).fix(make(text))
    seen.put((number, fixed.normalized_code == text, fixed.canon_signature))  # type: ignore[attr-defined]


def test_of_200_racing_processes_exactly_one_fixes_the_canon_and_all_see_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    gate, seen = context.Barrier(200), context.Queue()
    workers = [context.Process(target=_race, args=(tmp_path, i, gate, seen)) for i in range(200)]
    for worker in workers:
        worker.start()
    results = [seen.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    winners = [number for number, won, _ in results if won]
    assert len(winners) == 1
    assert len({found for _, _, found in results}) == 1
    fixed = CanonStore(tmp_path, VERSIONS).get("gcd")
    assert fixed is not None
    assert f"return {winners[0]}" in fixed.normalized_code
    assert [path.name for path in tmp_path.iterdir()] == ["gcd.json"]  # nothing torn, nothing left behind


def test_changing_a_fixed_canon_raises_and_leaves_the_file_alone(tmp_path: Path) -> None:
    store = CanonStore(tmp_path, VERSIONS)
    store.set(make("a"))
    before = (tmp_path / "gcd.json").read_bytes()
    store.set(make("a"))  # the same canon again is no change
    with pytest.raises(CanonImmutabilityError, match="--re-anchor"):
        store.set(make("b"))
    assert store.fix(make("b")).normalized_code == "a"
    assert (tmp_path / "gcd.json").read_bytes() == before


@pytest.mark.parametrize("other", [Versions("2-py3.11", "1"), Versions("1-py3.11", "2")])
def test_a_canon_of_another_version_is_refused_with_the_way_to_re_anchor(
    tmp_path: Path, other: Versions
) -> None:
    CanonStore(tmp_path, VERSIONS).fix(make("a"))
    with pytest.raises(CanonVersionError, match=r"--re-anchor.*--out") as caught:
        CanonStore(tmp_path, other).get("gcd")
    assert "\n" not in str(caught.value)


def test_re_anchoring_archives_the_old_canon_and_frees_the_place(tmp_path: Path) -> None:
    store = CanonStore(tmp_path, VERSIONS)
    store.fix(make("a"))
    first = store.archive("gcd")
    assert store.get("gcd") is None
    store.fix(make("b"))
    second = store.archive("gcd")
    assert first is not None
    assert second is not None
    assert first != second
    assert [json.loads(p.read_text())["normalized_code"] for p in (first, second)] == ["a", "b"]
    assert store.archive("gcd") is None


def test_a_damaged_canon_is_named(tmp_path: Path) -> None:
    store = CanonStore(tmp_path, VERSIONS)
    store.fix(make("a"))
    path = tmp_path / "gcd.json"
    path.write_text(path.read_text().replace('"normalized_code": "a"', '"normalized_code": "b"'))
    with pytest.raises(UserError, match=r"gcd\.json"):
        store.get("gcd")
    path.write_text("{")
    with pytest.raises(UserError, match=r"gcd\.json"):
        store.get("gcd")


def test_a_prompt_id_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="prompt id"):
        CanonStore(tmp_path, VERSIONS).get("../elsewhere")
