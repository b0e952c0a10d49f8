"""Texts and labelled sentences, and where they came from.

Sources are tried in a fixed order: HuggingFace `datasets`, a local path given in the configuration, the
samples in `data/offline/`. What was used, and why nothing earlier in the order was, is announced
and kept in every record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from huggingface_hub import constants
from pydantic import StringConstraints

from cachemedicpp.tasks.config import DataConfig
from homeostat.core.config import ConfigModel, parse_config
from homeostat.core.errors import UserError, unreadable
from homeostat.core.models import hub_reachable
from homeostat.core.progress import say
from homeostat.core.resources import find, resource

Part = Literal["train", "eval"]
Origin = Literal["hub", "path", "offline"]
T = TypeVar("T")

_OFFLINE_TEXT = "data/offline/wikitext2_sample.txt"
_OFFLINE_SENTENCES = "data/offline/sst2_sample.jsonl"
_EVAL_OF_FIVE = (1, 3)  # of every five paragraphs of the offline sample; the others are trained on


@dataclass(frozen=True)
class Source:
    """Which data a figure was measured on: kept in every record."""

    dataset: str
    origin: Origin
    where: str
    sha256: str
    skipped: tuple[str, ...] = field(default=())

    def as_record(self) -> dict[str, Any]:
        return {**asdict(self), "skipped": list(self.skipped)}


@dataclass(frozen=True)
class Corpus:
    paragraphs: tuple[str, ...]
    source: Source

    @property
    def text(self) -> str:
        return "\n\n".join(self.paragraphs)


class Sentence(ConfigModel):
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    label: Literal[0, 1]  # negative, positive


@dataclass(frozen=True)
class Sentences:
    items: tuple[Sentence, ...]
    source: Source


class _UnavailableError(Exception):
    """This source cannot be used here; the message says why, and the next one is tried."""


def load_text(config: DataConfig, part: Part = "eval") -> Corpus:
    """Wikitext-2, or what stands in for it: text to evaluate on, or other text to train and calibrate on."""
    wanted = config.wikitext2
    path = wanted.path if part == "eval" else wanted.train_path
    split = wanted.split if part == "eval" else "train"
    paragraphs, source = _first_source(
        f"wikitext2 ({part})",
        config.use_offline,
        hub=lambda: _hub_paragraphs(split),
        path=path,
        read=read_paragraphs,
        offline=_OFFLINE_TEXT,
        keep=lambda found: _offline_part(found, part),
    )
    return Corpus(tuple(paragraphs), source)


def load_sentences(config: DataConfig) -> Sentences:
    """SST-2, or what stands in for it."""
    sentences, source = _first_source(
        "sst2",
        config.use_offline,
        hub=_hub_sentences,
        path=config.sst2.path,
        read=read_sentences,
        offline=_OFFLINE_SENTENCES,
        keep=lambda found: found,
    )
    return Sentences(tuple(sentences), source)


def read_paragraphs(path: Path) -> list[str]:
    """Paragraphs of a text file: a blank line ends one, and in Wikitext's own form so does every line."""
    text = read_text(path)
    paragraphs = [line.strip() for line in text.splitlines() if line.strip()]
    if not paragraphs:
        raise UserError(f"{path} has no text in it: give a file of plain paragraphs")
    return paragraphs


def read_sentences(path: Path) -> list[Sentence]:
    """Labelled sentences from `.jsonl` (`text`, `label`) or tab-separated `label<TAB>text`, header or not."""
    lines = [(n, line) for n, line in enumerate(read_text(path).splitlines(), start=1) if line.strip()]
    read = _json_sentence if path.suffix == ".jsonl" else _tsv_sentence
    if read is _tsv_sentence and lines and lines[0][1].split("\t")[0].strip() == "label":
        lines = lines[1:]
    found = []
    for number, line in lines:
        place = f"{path}, line {number}: not a labelled sentence"
        try:
            found.append(parse_config(Sentence, read(line), source=place))
        except (ValueError, TypeError) as error:
            raise UserError(f"{place} ({error})") from None
        except KeyError as error:
            raise UserError(f"{place} (no key {error})") from None
    if not found:
        raise UserError(f"{path} has no sentences in it: give `label<TAB>text` lines or JSON lines")
    return found


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` items, evenly spread over the list and always the same ones."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def stratified(items: list[T], count: int, label: Callable[[T], Any]) -> list[T]:
    """The same with every label's share kept: no period in a file's order can change it."""
    count = min(count, len(items))
    places: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(label(item), []).append(place)
    exact = {name: count * len(own) / len(items) for name, own in places.items()}
    wanted = {name: int(number) for name, number in exact.items()}
    for name in sorted(exact, key=lambda name: wanted[name] - exact[name])[: count - sum(wanted.values())]:
        wanted[name] += 1
    chosen = [place for name, own in places.items() for place in spread(own, wanted[name])]
    return [items[place] for place in sorted(chosen)]


def _first_source(
    dataset: str,
    offline_only: bool,
    *,
    hub: Callable[[], list[T]],
    path: str | None,
    read: Callable[[Path], list[T]],
    offline: str,
    keep: Callable[[list[T]], list[T]],
) -> tuple[list[T], Source]:
    skipped: list[str] = []
    if offline_only:
        skipped.append("data.use_offline is true")
    else:
        try:
            found = hub()
            return found, _source(dataset, "hub", constants.ENDPOINT, found, skipped)
        except _UnavailableError as reason:
            skipped.append(f"hub: {reason}")
        if path is not None:
            found = read(find(path))
            return found, _source(dataset, "path", path, found, skipped)
        skipped.append("path: none is set")
    found = keep(read(resource(offline)))
    return found, _source(dataset, "offline", offline, found, skipped)


def _source(dataset: str, origin: Origin, where: str, found: list[T], skipped: list[str]) -> Source:
    digest = hashlib.sha256(repr(found).encode("utf-8")).hexdigest()
    source = Source(dataset, origin, where, digest, tuple(skipped))
    _announce(source)
    return source


@cache
def _announce(source: Source) -> None:
    reason = f" ({'; '.join(source.skipped)})" if source.skipped else ""
    say(f"data: {source.dataset} from {source.origin}: {source.where}{reason}")


def _offline_part(paragraphs: list[str], part: Part) -> list[str]:
    wanted = part == "eval"
    return [p for i, p in enumerate(paragraphs) if (i % 5 in _EVAL_OF_FIVE) == wanted]


def _hub_paragraphs(split: str) -> list[str]:
    rows = _load_dataset("Salesforce/wikitext", "wikitext-2-raw-v1", split)
    return [text for row in rows if (text := row["text"].strip())]


def _hub_sentences() -> list[Sentence]:
    rows = _load_dataset("stanfordnlp/sst2", None, "validation")
    return [Sentence(text=row["sentence"], label=row["label"]) for row in rows]


def _load_dataset(name: str, subset: str | None, split: str) -> Any:
    """A dataset from the hub or its local cache. Offline this fails in seconds, never hangs."""
    try:
        import datasets
    except ImportError:
        raise _UnavailableError("the `datasets` package is not installed") from None
    offline = datasets.config.HF_HUB_OFFLINE or not _reachable()
    with ExitStack() as stack:
        if offline:  # keep the hub client from retrying a network that is not there
            for module in (constants, datasets.config):
                stack.enter_context(_set(module, "HF_HUB_OFFLINE", True))
        try:
            return datasets.load_dataset(name, subset, split=split)
        except Exception as error:  # the hub client raises anything from OSError to its own types
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            state = "no network, and it is not in the local cache" if offline else first
            raise _UnavailableError(f"{name}: {state}") from None


_reachable = cache(hub_reachable)


@contextmanager
def _set(module: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def read_text(path: Path) -> str:
    """A UTF-8 text file, or one line that says why not."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None


def _json_sentence(line: str) -> dict[str, Any]:
    row = json.loads(line)
    return {name: row[name] for name in ("text", "label")}


def _tsv_sentence(line: str) -> dict[str, Any]:
    label, tab, text = line.partition("\t")
    if not tab:
        raise ValueError("no tab between label and text")
    return {"text": text, "label": int(label)}
