"""The demo from end to end: run, record, print."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from cachemedicpp.repair.defences import Defence
from cachemedicpp.runs.calibrate import prepare_once
from homeostat.core.progress import progress, say
from homeostat.core.rundir import check_out, open_run
from homeostat.demo.answers import replay_answers
from homeostat.demo.cache import CacheDemonstration
from homeostat.demo.config import DemoConfig
from homeostat.demo.tables import cache_table, code_table
from homeostat.joint.config import CLEAN
from homeostat.joint.experiment import OPERATOR, build_defences, check_joint, joint_into
from homeostat.joint.table import terminal_table
from homeostat.report import write_report


def run_demo(config: DemoConfig, out: Path) -> None:
    """Run the demo into `out`, or continue the one that is there.

    The model is loaded first: a name that cannot be loaded leaves no run directory behind.
    """
    console = Console()
    check_joint(config.joint)
    check_out(out, config)
    with progress(f"loading {config.model.name}"):
        model, tokenizer = config.model.load()
    with open_run(out, command="homeostat demo", config=config) as run:
        say("1 of 3: recorded answers of two models, brought to one program per prompt")
        answers = replay_answers(config.answers, out / "answers", console)
        say("2 of 3: questions answered from a clean, a damaged and a repaired cache")
        windows, length = config.cache.calibration_windows, config.cache.calibration_len
        operator = prepare_once(run.path / OPERATOR, model, tokenizer, config.joint.data, windows, length)
        gaussian = Defence("G", repair=operator)
        demonstration = CacheDemonstration(config, model, tokenizer, gaussian)
        with progress("answering from damaged KV caches", len(config.cache.cases), unit="questions") as bar:
            rows = demonstration.run(run, bar)
        told = [{key: value for key, value in row.items() if key != "tokens"} for row in rows]
        run.write_metrics("demo_metrics", {"demo.answers": answers, "demo.cache": told}, _settings(config))
        console.print(cache_table(rows))
        say("3 of 3: code written from clean, damaged and repaired caches")
        defences = build_defences(config.joint, model, lambda: operator)
        metrics = joint_into(run, config.joint, model, tokenizer, defences)
        run.finish()
    console.print(code_table(out / "samples.jsonl", CLEAN))
    console.print(terminal_table(metrics))
    report = write_report(out)
    console.print(f"Run directory: [bold]{escape(str(out))}[/bold]", soft_wrap=True)
    console.print(f"Report, for a browser: [bold]{escape(str(report))}[/bold]", soft_wrap=True)


def _settings(config: DemoConfig) -> dict[str, str | int]:
    return {"seed": config.seed, "model": config.model.name}
