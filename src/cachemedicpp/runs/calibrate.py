"""Operator G for a model: the `calibrate` command, and the short way for runs that need one of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from cachemedicpp.repair.base import Repair, load_repair
from cachemedicpp.repair.gaussian import store
from cachemedicpp.repair.gaussian.calibrate import calibrate
from cachemedicpp.tasks.config import DataConfig
from cachemedicpp.tasks.data import load_text, read_paragraphs
from cachemedicpp.tasks.windows import Windows
from homeostat.core.errors import UserError
from homeostat.core.models import load_model
from homeostat.core.progress import progress, say
from homeostat.core.rundir import check_writable


def calibrate_command(
    model_name: str, text: str, out: Path | None, windows: int, length: int, reach: int | None
) -> None:
    """Calibrate on `text` (a file, `wikitext2` or `offline`) and write the operator to `out`."""
    out = out or Path("runs") / f"cache-calibrate-{Path(model_name).stem}"
    check_writable(out)
    words, told = _text(text)
    say(f"cache calibrate {model_name} → {out}")
    with progress(f"loading {model_name}"):
        model, tokenizer = load_model(model_name)
    operator = store.calibrate(
        model, tokenizer, words, windows=windows, length=length, reach=reach, about=told
    )
    operator.save(out)
    settings = operator.card["settings"]
    typer.echo(
        f"operator G for {model_name}: {settings['tokens']} tokens, {settings['sinks']} sinks, reach "
        f"{settings['reach']} → {out}"
    )


def prepare_once(
    folder: Path, model: Any, tokenizer: Any, data: DataConfig, windows: int, length: int
) -> Repair:
    """G for `model`, from `windows` texts of `length` tokens of the training text, which is not evaluated.

    It is kept in `folder`: a resumed run reads it back.
    """
    if not (folder / "card.json").exists():
        corpus = load_text(data, "train")
        ids = Windows.of(corpus, tokenizer, length).spread(windows)
        store.make(calibrate(model, ids), model, {"text": corpus.source.as_record()}).save(folder)
    return load_repair(folder, model)


def _text(text: str) -> tuple[str, dict[str, object]]:
    """The words to calibrate on and where they came from. Named sources are apart from the evaluation."""
    if text in ("wikitext2", "offline"):
        corpus = load_text(DataConfig(use_offline=text == "offline"), part="train")
        return corpus.text, corpus.source.as_record()
    path = Path(text)
    if not path.is_file():
        raise UserError(f"--text {text!r}: no such file; give one, or wikitext2, or offline")
    return "\n\n".join(read_paragraphs(path)), {"origin": "path", "where": path.name}
