from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from tests.support.rows import read_rows

import skyt
from homeostat.core.errors import UserError
from homeostat.core.records import read_record
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")

EUCLID = "def gcd(a, b):\n    while b:\n        a, b = (b, a % b)\n    return a"
RENAMED = (
    "```python\ndef gcd(x: int, y: int) -> int:\n    '''Doc.'''\n    while y:\n        x, y = y, x % y\n"
    "    return x\n```"
)
WRONG = "def gcd(a, b):\n    return a"


def test_wrap_anchors_to_the_first_compliant_output_and_repairs_later_ones(tmp_path: Path) -> None:
    answers = iter([WRONG, "no code at all", EUCLID, RENAMED, WRONG])
    with skyt.wrap(lambda prompt: next(answers), contract="gcd", store=tmp_path / "store", model="m") as ask:
        before = [ask.sample() for _ in range(2)]
        assert [s.record["d_pre"] for s in before] == [1.0, 1.0]  # missing canon: 1.0 by definition
        assert ask() == EUCLID
        rescued = ask.sample()
        assert rescued.code == EUCLID
        assert rescued.canonical
        assert rescued.record["evidence"] == "rewritten"
        wrong = ask.sample()
        assert not wrong.canonical
        assert wrong.record["d_post"] > 0
        overall = ask.metrics()["skyt.overall"]
    assert overall["N"] == 5
    assert overall["R_anchor"] == 2 / 5
    assert overall["rescue_rate"] == 1 / 5
    assert overall["r_anchor"] == {"identical": 1 / 5, "rewritten": 2 / 5, "equivalent": 2 / 5}


def _serve(folder: Path, text: str, times: int, results: Any) -> None:
    with skyt.wrap(lambda prompt: text, contract="gcd", store=folder, model="m") as ask:
        results.put({ask() for _ in range(times)})


def test_processes_sharing_a_store_agree_on_one_canon_and_count_every_call_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    texts = [EUCLID, RENAMED, EUCLID.replace("b", "c")]
    workers = [context.Process(target=_serve, args=(tmp_path / "s", text, 4, results)) for text in texts]
    for worker in workers:
        worker.start()
    seen = set().union(*(results.get(timeout=60) for _ in workers))
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert len(seen) == 1  # all three programs have one normal form: everyone got the canon's text
    for name in ("distances_pre.csv", "distances_post.csv"):
        ids = [row["sample_id"] for row in read_rows(tmp_path / "s" / name)]
        assert ids == [f"{number:06d}" for number in range(12)]


def test_async_functions_are_awaited(tmp_path: Path) -> None:
    async def generate(prompt: str) -> str:
        await asyncio.sleep(0)
        return EUCLID

    with skyt.wrap(generate, contract="gcd", store=tmp_path / "s") as ask:
        assert asyncio.run(ask.asample()).code == EUCLID
        with pytest.raises(UserError, match="asample"):
            ask()


def test_mistakes_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gcd"):
        skyt.wrap(len, contract="gdc", store=tmp_path / "s")
    with pytest.raises(UserError, match="tau"):
        skyt.wrap(len, contract="gcd", store=tmp_path / "s", tau=1.5)
    with pytest.raises(UserError, match="not callable"):
        skyt.wrap("text", contract="gcd", store=tmp_path / "s")  # type: ignore[arg-type]
    ask = skyt.wrap(lambda prompt: 3, contract="gcd", store=tmp_path / "s")
    with pytest.raises(UserError, match="returned int"):
        ask()
    with pytest.raises(UserError, match="other settings"):
        skyt.wrap(lambda prompt: "", contract="gcd", store=tmp_path / "s", tau=0.2)


def test_an_answer_says_whether_it_complies_and_how_far_it_is(tmp_path: Path) -> None:
    answers = iter(["Sorry, I cannot help.", EUCLID, RENAMED, WRONG])
    with skyt.wrap(lambda prompt: next(answers), contract="gcd", store=tmp_path / "s") as ask:
        none, first, renamed, wrong = (ask.sample() for _ in range(4))
    assert [a.compliant for a in (none, first, renamed, wrong)] == [False, True, True, False]
    assert (none.distance, none.evidence, none.attempts) == (1.0, "none", 1)
    assert (renamed.distance, renamed.evidence) == (0.0, "rewritten")
    assert wrong.distance > 0 and "attempt" not in wrong.record


def test_a_wrong_answer_is_asked_for_again_and_every_attempt_is_on_record(tmp_path: Path) -> None:
    answers = iter([WRONG, "no code", EUCLID, WRONG, WRONG, WRONG])
    with skyt.wrap(
        lambda prompt: next(answers), contract="gcd", store=tmp_path / "s", on_failure="retry"
    ) as ask:
        answer = ask.sample()
        assert answer.compliant and answer.attempts == answer.record["attempt"] == 3
        given_up = ask.sample()
        assert not given_up.compliant and given_up.attempts == 3
        assert ask.metrics()["skyt.overall"]["N"] == 6


def test_raise_hands_out_nothing_that_does_not_comply(tmp_path: Path) -> None:
    answers = iter([WRONG, WRONG, EUCLID, WRONG])

    async def generate(prompt: str) -> str:
        return next(answers)

    options: dict[str, Any] = {"on_failure": "raise", "attempts": 2}
    with skyt.wrap(generate, contract="gcd", store=tmp_path / "s", **options) as ask:
        with pytest.raises(
            skyt.NotCompliantError, match=r"^gcd: none of 2 answers complies .*gcd\("
        ) as caught:
            asyncio.run(ask.asample())
        assert caught.value.answer.raw == WRONG
        assert asyncio.run(ask.asample()).code == EUCLID
        with pytest.raises(skyt.NotCompliantError, match="gcd: the answer does not comply"):
            ask.anchor(WRONG)


@pytest.mark.parametrize(
    ("option", "says"), [({"on_failure": "rais"}, "did you mean 'raise'"), ({"attempts": 0}, "at least 1")]
)
def test_options_on_failure_are_checked_before_anything_is_written(
    tmp_path: Path, option: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        skyt.wrap(len, contract="gcd", store=tmp_path / "s", **option)
    assert not (tmp_path / "s").exists()


def test_a_closed_store_is_a_finished_run_that_can_be_opened_again(tmp_path: Path) -> None:
    for count in (1, 2):
        with skyt.wrap(lambda prompt: EUCLID, contract="gcd", store=tmp_path / "s") as ask:
            ask()
            assert ask.metrics()["skyt.overall"]["N"] == count
        record = read_record(tmp_path / "s" / "run_record.json", "run_record")
        assert record["status"] == "complete" and record["finished_utc"]


def test_an_empty_store_has_metrics(tmp_path: Path) -> None:
    with skyt.wrap(lambda prompt: EUCLID, contract="gcd", store=tmp_path / "s") as ask:
        assert ask.metrics()["skyt.overall"]["R_anchor"] == 0.0
