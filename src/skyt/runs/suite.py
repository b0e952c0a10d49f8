"""`homeostat code run` and `homeostat code suite`: generate every cell, then measure all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from homeostat.core.config import resolved
from homeostat.core.engine import EngineName, Outcome, run_tasks
from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.core.rundir import open_run
from skyt.contracts.contract import Contract, load_contract
from skyt.generators.config import GeneratorConfig
from skyt.runs.config import MeasureConfig, RunConfig, SuiteConfig
from skyt.runs.generate import CellJob, collect_cell
from skyt.runs.measure import Surroundings, measure_and_report, stamped


@dataclass(frozen=True)
class Generated:
    """The metrics of a run, or what could not be generated."""

    metrics: Record | None = None
    failures: list[str] = field(default_factory=list)
    recorded: int = 0
    wanted: int = 0


def run_one(config: RunConfig, out: Path, around: Surroundings, contracts_dir: Path | None) -> Generated:
    """One prompt, one model, one temperature."""
    contract = load_contract(config.contract, contracts_dir)
    cells = [(contract, config.generator, config.temperature)]
    return _generate_and_measure(config, cells, config.n, out, around, mode="run")


def run_suite(
    config: SuiteConfig,
    out: Path,
    around: Surroundings,
    contracts_dir: Path | None,
    engine: EngineName = "local",
    config_path: Path | None = None,
) -> Generated:
    """Every prompt with every model at every temperature, in the order of the matrix."""
    names = [generator.name for generator in config.generators]
    if len(set(names)) != len(names):
        raise UserError(f"generators: two have the same name ({', '.join(names)}); give each its own name")
    contracts = [load_contract(name, contracts_dir) for name in dict.fromkeys(config.contracts)]
    # Models outermost: each is loaded once, and its cells run one after the other.
    cells = [
        (contract, generator, temperature)
        for generator in config.generators
        for contract in contracts
        for temperature in dict.fromkeys(config.temperatures)
    ]
    return _generate_and_measure(config, cells, config.n, out, around, "suite", engine, config_path)


def _generate_and_measure(
    config: MeasureConfig,
    cells: Sequence[tuple[Contract, GeneratorConfig, float]],
    n: int,
    out: Path,
    around: Surroundings,
    mode: str,
    engine: EngineName = "local",
    config_path: Path | None = None,
) -> Generated:
    contracts = {contract.id: contract for contract, _, _ in cells}
    with open_run(
        out, command=f"code {mode}", config=stamped(config, contracts), config_path=config_path
    ) as run:
        jobs = [
            CellJob(
                path=(run.path / "generations" / f"{number:04d}.jsonl").absolute(),
                generator=generator,
                contract_id=contract.id,
                prompt=contract.prompt,
                temperature=temperature,
                n=n,
                seed=config.seed,
            )
            for number, (contract, generator, temperature) in enumerate(cells)
        ]
        items = [resolved(job) for job in jobs]
        workers = 1 if engine == "local" and _loads_models(cells) else around.processes
        outcomes = run_tasks(collect_cell, items, engine=engine, workers=workers, label="generating")
        failures = [line for outcome in outcomes for line in _failures(outcome)]
        generations = [generation for job in jobs for generation in job.generations()]
        if failures:
            return Generated(None, failures, len(generations), n * len(jobs))
        metrics = measure_and_report(run, generations, contracts, config, around, mode=mode)
    return Generated(metrics, [], len(generations), n * len(jobs))


def _failures(outcome: Outcome[list[str]]) -> list[str]:
    """What a cell could not generate. The user's mistakes stop the run in one line, bugs with a traceback."""
    mistake = "homeostat.core.errors.UserError: "
    if not outcome.ok and (outcome.error or "").startswith(mistake):
        raise UserError((outcome.error or "").removeprefix(mistake))
    return outcome.unwrap()


def _loads_models(cells: Sequence[tuple[Contract, GeneratorConfig, float]]) -> bool:
    """A local model uses all cores itself; several copies would fight over them and over memory."""
    return any(generator.kind in ("local", "callable") for _, generator, _ in cells)
