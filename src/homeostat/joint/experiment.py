"""The joint experiment from end to end: write code in every arm, measure it with skyt, compare the arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import Any

from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.base import Repair, load_repair
from cachemedicpp.repair.defences import Defence, Guarded, heuristic_defences
from cachemedicpp.repair.heuristics import heuristics
from cachemedicpp.runs.calibrate import prepare_once
from homeostat.core import atomic
from homeostat.core.errors import UserError, nearest
from homeostat.core.progress import Bar, progress, say
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir, check_out, open_run
from homeostat.joint.config import Arm, JointConfig
from homeostat.joint.figure import draw
from homeostat.joint.measures import compare
from homeostat.joint.sampling import Writer
from homeostat.joint.table import markdown_table
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.generators.outputs import OutputFile
from skyt.metrics.summary import summarise
from skyt.runs.judging.pool import JudgePool
from skyt.runs.measure import RunOptions, check_options
from skyt.runs.pipeline import measure

METRICS = "joint_metrics"
OPERATOR = "operators/G"


def run_joint(config: JointConfig, out: Path, config_path: str | None, workers: int) -> Record:
    """Run the experiment into `out`, or continue the one that is there. Returns the metrics."""
    check_joint(config, workers)
    check_out(out, config)
    say(f"homeostat joint: {len(config.contracts)} contracts in {len(config.arms)} arms → {out}")
    with progress(f"loading {config.model.name}"):
        model, tokenizer = config.model.load()
    with open_run(out, command="homeostat joint", config=config, config_path=config_path) as run:
        windows, length = config.calibration_windows, config.calibration_len
        calibrated = partial(
            prepare_once, run.path / OPERATOR, model, tokenizer, config.data, windows, length
        )
        defences = build_defences(config, model, calibrated)
        metrics = joint_into(run, config, model, tokenizer, defences, workers)
        run.finish()
    return metrics


def joint_into(
    run: RunDir,
    config: JointConfig,
    model: Any,
    tokenizer: Any,
    defences: Mapping[str, Defence],
    workers: int = 2,
) -> Record:
    """The experiment as part of a run that is open: samples, metrics, figure."""
    contracts = config.load_contracts()
    generations = _write(run, config, model, tokenizer, contracts, defences)
    with JudgePool(config.measure, contracts, workers) as pool:
        measure(run, generations, contracts, pool, mode="joint")
    settings = {"type": config.type, "samples": config.samples, "temperature": config.temperature}
    summarise(run, config.measure.tau, settings)
    metrics = compare(run.path / "samples.jsonl", config)
    run.write_metrics(METRICS, metrics, {**settings, "model": config.model.name})
    draw(metrics, run.figures)
    atomic.write_text(run.tables / "joint.md", markdown_table(metrics))
    return metrics


def check_joint(config: JointConfig, workers: int = 2) -> None:
    """Refuse what would be refused later, before anything is loaded."""
    config.load_contracts()
    check_defences(config)
    check_options(config.measure, RunOptions(workers=workers))


def check_defences(config: JointConfig) -> None:
    """Refuse a name that is neither a defence nor a folder, before anything is loaded or written."""
    known = ["none", *heuristics(calibrated=False), "G", "guard"]
    for name in config.defences:
        if name not in known and not Path(name).is_dir():
            raise UserError(
                f"unknown defence {name!r}; {nearest(name, known)} (or the folder of an operator)"
            )


def build_defences(config: JointConfig, model: Any, calibrated: Callable[[], Repair]) -> dict[str, Defence]:
    """Defences by name: those that need no preparation, G (from `calibrated`), and saved operators."""
    layers = tuple(range(Geometry.of(model).layers))
    every = (Defence(), Guarded(), *heuristic_defences(layers))
    simple = {defence.name: defence for defence in every}
    chosen: dict[str, Defence] = {}
    for name in config.defences:
        if name in simple:
            chosen[name] = simple[name]
        elif name == "G":
            chosen[name] = Defence(name, repair=calibrated())
        else:
            chosen[name] = Defence(Path(name).name, repair=load_repair(name, model))
    return chosen


def _write(
    run: RunDir,
    config: JointConfig,
    model: Any,
    tokenizer: Any,
    contracts: Mapping[str, Contract],
    defences: Mapping[str, Defence],
) -> list[Generation]:
    """Every generation, the clean arm first so that canons come from it; each (contract, arm) is a stage."""
    geometry = Geometry.of(model)
    family = CorruptionFamily.build(
        config.corruption, model, tokenizer, tuple(range(geometry.layers)), config.seed
    )
    texts: dict[tuple[str, Arm], list[str]] = {}
    total = len(contracts) * len(config.arms) * config.samples
    with progress("writing code", total, unit="samples") as bar:
        for name, contract in contracts.items():
            writer = cached(partial(Writer, config, model, tokenizer, family, _prompt(contract, config)))
            for number, arm in enumerate(config.arms):
                bar.advance(0, note=f"{name}, {arm.label}")
                stage, before = f"{name}-{number:03d}", bar.done
                kept = OutputFile(run.path / "generations" / f"{stage}.jsonl")
                defence = defences.get(arm.defence, Defence())
                texts[name, arm] = run.once(stage, partial(_write_arm, writer, arm, defence, kept, bar))
                kept.path.unlink(missing_ok=True)  # the stage has all of it now
                bar.skip(config.samples - (bar.done - before))
    return [
        Generation(name, arm.label, config.temperature, sample, text)
        for arm in config.arms
        for name in contracts
        for sample, text in enumerate(texts[name, arm])
    ]


def _write_arm(
    writer: Callable[[], Writer], arm: Arm, defence: Defence, outputs: OutputFile, bar: Bar
) -> list[str]:
    """All samples of an arm; each is kept as soon as it ends, and is not written a second time."""
    known = outputs.read()
    bar.skip(len(known))

    def ended(sample: int, text: str) -> None:
        outputs.append(sample, text)
        known[sample] = text
        bar.advance()

    writer().write(arm, defence, known, ended, bar.ahead)
    return [known[sample] for sample in sorted(known)]


def _prompt(contract: Contract, config: JointConfig) -> str:
    return contract.prompt.strip() + config.prompt_suffix
