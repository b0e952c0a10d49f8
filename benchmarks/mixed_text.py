"""Text of six kinds, in three parts that share nothing: to calibrate on, to choose limits with, to test on.

    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    python -m benchmarks.mixed_text vaderSentiment-3.3.2.tar.gz --out mixed

Encyclopaedia articles (WikiText-2), newspaper editorials, film reviews, product reviews and messages of a
social network (the archive's additional resources), and generated Python (recorded HumanEval generations).
Writes `calibrate.txt`, `choose.txt` and a file `KIND.txt` of test text for each kind.
"""

from __future__ import annotations

import argparse
import gzip
import html
import io
import json
import tarfile
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "data"
KINDS = {
    "editorials": "nytEditorialSnippets",
    "films": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "messages": "tweets",
}
PART = 0.15  # of each kind, to calibrate on, and the next as much, of which every third piece, for limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("archive", type=Path, help="vaderSentiment-3.3.2.tar.gz")
    parser.add_argument("--wikitext", type=Path, default=DATA / "wikitext2")
    parser.add_argument("--code", type=Path, default=DATA / "humaneval_generations" / "dev.jsonl.gz")
    parser.add_argument("--out", type=Path, default=Path("mixed"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    calibrate, choose = [], []
    kinds = {**snippets(asked.archive), "code": generations(asked.code)}
    for name, pieces in kinds.items():
        part = int(PART * len(pieces))
        calibrate += pieces[:part]
        choose += pieces[part : 2 * part : 3]
        write(asked.out / f"{name}.txt", pieces[2 * part :])
    articles = (asked.wikitext / "valid.txt").read_text(encoding="utf-8").split("\n")
    part = len(articles) // 5
    write(asked.out / "calibrate.txt", [*calibrate, *articles[:part]])
    write(asked.out / "choose.txt", [*choose, *articles[part : 2 * part : 3]])
    write(asked.out / "articles.txt", (asked.wikitext / "test.txt").read_text(encoding="utf-8").split("\n"))


def snippets(archive: Path) -> dict[str, list[str]]:
    """The texts of the four rated collections, from the archive inside the archive."""
    with tarfile.open(archive) as outer:
        name = next(name for name in outer.getnames() if name.endswith("hutto_ICWSM_2014.tar.gz"))
        inside = outer.extractfile(name)
        if inside is None:
            raise SystemExit(f"{name} in {archive} is not a file")
        with tarfile.open(fileobj=io.BytesIO(inside.read())) as inner:
            return {kind: _column(inner, f"{stem}_GroundTruth.txt") for kind, stem in KINDS.items()}


def _column(archive: tarfile.TarFile, ending: str) -> list[str]:
    """The third column of a table, without the quoting of web pages."""
    name = next(n for n in archive.getnames() if n.endswith(ending) and not Path(n).name.startswith("."))
    file = archive.extractfile(name)
    lines = [] if file is None else file.read().decode("utf-8", "ignore").splitlines()
    return [html.unescape(line.split("\t", 2)[2]) for line in lines if line.count("\t") >= 2]


def generations(path: Path) -> list[str]:
    """Recorded programs in the order of their tasks, every third."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["raw_output"] for line in list(lines)[::3]]


def write(path: Path, pieces: list[str]) -> None:
    path.write_text("\n".join(pieces), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
