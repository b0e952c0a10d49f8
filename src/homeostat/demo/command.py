"""The demo from end to end: run, record, print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from homeostat.demo.cache import Answer, CacheDemonstration, agreement
from homeostat.demo.config import DemoConfig
from homeostat.progress import progress
from homeostat.rundir import open_run


def run_demo(config: DemoConfig, out: Path) -> None:
    """Run the demo into `out`, or go on with the one that is there.

    The model is loaded first: a name that cannot be loaded leaves no run directory behind.
    """
    console = Console()
    console.print(f"Loading [bold]{escape(config.model.name)}[/bold] …")
    model, tokenizer = config.model.load()
    demonstration = CacheDemonstration(config, model, tokenizer)
    with open_run(out, command="homeostat demo", config=config) as run:
        with progress("corrupting the KV cache", demonstration.steps) as bar:
            answers = demonstration.run(run, bar)
        metrics = {"demo.cache": _cache_metrics(answers)}
        run.write_metrics("demo_metrics", metrics, {"seed": config.seed, "model": config.model.name})
        run.finish()
    console.print(_cache_table(answers))
    console.print(f"Run directory: [bold]{escape(str(out))}[/bold]", soft_wrap=True)


def _cache_metrics(answers: list[Answer]) -> list[dict[str, Any]]:
    clean = {answer["question"]: answer["tokens"] for answer in answers if answer["epsilon"] == 0}
    return [
        {
            "question": answer["question"],
            "type": answer["corruption"]["type"],
            "epsilon": answer["epsilon"],
            "agreement": agreement(clean[answer["question"]], answer["tokens"]),
        }
        for answer in answers
    ]


def _cache_table(answers: list[Answer]) -> Table:
    kind = answers[0]["corruption"]["type"]
    table = Table(
        title=f"One KV cache, {kind} damage of growing severity", title_justify="left", show_lines=True
    )
    table.add_column("epsilon", justify="right")
    table.add_column("same start", justify="right")
    table.add_column("answer")
    for answer, metric in zip(answers, _cache_metrics(answers), strict=True):
        if answer["epsilon"] == 0:
            table.add_row("", "", f"[bold]{escape(answer['question'])}")
        name = "clean" if answer["epsilon"] == 0 else f"{answer['epsilon']:g}"
        table.add_row(name, f"{metric['agreement']:.0%}", escape(answer["text"]))
    return table
