"""Data sources: order, announcement, record, offline samples, damaged files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cachemedicpp.tasks import data
from cachemedicpp.tasks.config import DataConfig
from cachemedicpp.tasks.data import (
    load_sentences,
    load_text,
    read_paragraphs,
    read_sentences,
    spread,
    stratified,
)
from homeostat.core.errors import UserError
from homeostat.core.resources import resource


def test_the_offline_text_has_at_least_200_different_readable_paragraphs() -> None:
    paragraphs = read_paragraphs(resource("data/offline/wikitext2_sample.txt"))
    assert len(paragraphs) >= 200
    assert len(set(paragraphs)) == len(paragraphs)
    openings = {" ".join(p.split()[:3]) for p in paragraphs}
    assert len(openings) > 0.9 * len(paragraphs), "paragraphs that begin alike read as a template"
    assert min(len(p.split()) for p in paragraphs) >= 35


def test_the_offline_sentences_are_at_least_200_and_balanced() -> None:
    sentences = read_sentences(resource("data/offline/sst2_sample.jsonl"))
    assert len(sentences) >= 200
    assert len({s.text for s in sentences}) == len(sentences)
    assert sum(s.label for s in sentences) * 2 == len(sentences)
    first = [s.label for s in sentences[:20]]
    assert 0 < sum(first) < 20, "labels must not come in two blocks"


def test_training_and_evaluation_paragraphs_of_the_offline_sample_are_disjoint_and_complete() -> None:
    config = DataConfig(use_offline=True)
    train, evaluated = load_text(config, "train"), load_text(config, "eval")
    assert not set(train.paragraphs) & set(evaluated.paragraphs)
    everything = read_paragraphs(resource("data/offline/wikitext2_sample.txt"))
    assert set(train.paragraphs) | set(evaluated.paragraphs) == set(everything)


def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: Any) -> Any:
        raise data._UnavailableError("no network")

    monkeypatch.setattr(data, "_load_dataset", unavailable)


def test_a_local_path_is_used_when_the_hub_is_not_there_and_the_record_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_hub(monkeypatch)
    (tmp_path / "text.txt").write_text("one paragraph\n\nanother paragraph\n")
    found = load_text(DataConfig.model_validate({"wikitext2": {"path": str(tmp_path / "text.txt")}}))
    assert found.paragraphs == ("one paragraph", "another paragraph")
    assert found.source.origin == "path"
    assert found.source.as_record()["skipped"] == ["hub: no network"]


def test_the_hub_comes_first_even_where_a_path_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"sentence": "good ", "label": 1}, {"sentence": "bad", "label": 0}]
    monkeypatch.setattr(data, "_load_dataset", lambda *_: rows)
    (tmp_path / "x.tsv").write_text("1\tother\n")
    found = load_sentences(DataConfig.model_validate({"sst2": {"path": str(tmp_path / "x.tsv")}}))
    assert [s.text for s in found.items] == ["good", "bad"]
    assert found.source.origin == "hub"


def test_use_offline_reads_neither_the_hub_nor_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_load_dataset", lambda *_: pytest.fail("the hub was asked"))
    config = DataConfig.model_validate({"use_offline": True, "wikitext2": {"path": "/nonexistent"}})
    assert load_text(config).source.origin == "offline"


def test_a_fallback_is_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _no_hub(monkeypatch)
    data._announce.cache_clear()
    load_sentences(DataConfig())
    said = "".join(capsys.readouterr())
    assert "sst2 from offline" in said
    assert "no network" in said


def test_an_unreachable_hub_fails_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    data._reachable.cache_clear()
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    started = time.monotonic()
    with pytest.raises(data._UnavailableError):
        data._load_dataset("Salesforce/wikitext", "wikitext-2-raw-v1", "test")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"text": "fine", "label": 1}\n{"text": "no label"}\n', "line 2"),
        ("b.jsonl", "not json\n", "line 1"),
        ("c.jsonl", '{"text": "x", "label": 7}\n', "label = 7: input should be 0 or 1"),
        ("d.tsv", "label\ttext_a\n1\tfine\nno tab here\n", "line 3"),
        ("e.tsv", "yes\tno\n", "line 1"),
        ("f.tsv", "", "no sentences"),
    ],
)
def test_a_corrupt_sentence_file_is_refused_with_its_place(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError, match=problem):
        read_sentences(path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="UTF-8"):
        read_paragraphs(path)


def test_spread_keeps_order_and_ends_where_it_should() -> None:
    assert spread(list(range(10)), 3) == [0, 3, 6]
    assert spread([1, 2], 5) == [1, 2]


def test_the_development_data_reads_as_sst2(shared_data: Path) -> None:
    sentences = read_sentences(shared_data / "sst2" / "dev.tsv")
    assert len(sentences) == 872
    assert json.dumps(sentences[0].text)


@pytest.mark.parametrize("count", [4, 10, 16, 20, 33])
def test_a_stratified_choice_keeps_the_share_of_each_label_whatever_the_order(count: int) -> None:
    alternating = [("a", i) if i % 2 else ("b", i) for i in range(100)]
    chosen = stratified(alternating, count, lambda item: item[0])
    assert len(chosen) == count == len(set(chosen))
    assert abs(sum(label == "a" for label, _ in chosen) - count / 2) <= 0.5
