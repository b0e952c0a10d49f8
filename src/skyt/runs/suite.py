"""`homeostat code run` and `homeostat code suite`: generate every cell, then measure all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from homeostat.core.config import resolved
from homeostat.core.engine import EngineName, Outcome, run_tasks
from homeostat.core.errors import UserError
from homeostat.core.progress import say
from homeostat.core.records import Record
from homeostat.core.rundir import check_out, default_out, open_run
from skyt.contracts.contract import Contract, load_contract, read_contracts
from skyt.generators.config import GeneratorConfig
from skyt.runs.config import MeasureConfig, RunConfig, SuiteConfig
from skyt.runs.generate import CellJob, collect_cell, loaded
from skyt.runs.measure import RunOptions, check_options, measure_and_report, stamped


@dataclass(frozen=True)
class Generated:
    """The metrics of a run, or what could not be generated, and the folder of the run."""

    folder: Path
    metrics: Record | None = None
    failures: list[str] = field(default_factory=list)
    recorded: int = 0
    wanted: int = 0


def run_one(
    config: RunConfig, out: Path | None, options: RunOptions, contracts_dir: Path | None
) -> Generated:
    """One prompt, one model, one temperature; into `out`, or `runs/code-<contract>`."""
    contract = load_contract(config.contract, contracts_dir)
    cells = [(contract, config.generator, config.temperature)]
    work = _Work(config, cells, config.n, mode="run")
    return work.into(out, f"code-{contract.id}", options)


def as_suite(config: RunConfig, folder: Path) -> SuiteConfig:
    """The settings of a run for every contract of a folder."""
    names = list(read_contracts(folder))
    if not names:
        raise UserError(f"no contracts in {folder}: a contract is a .yaml file")
    shared = config.model_dump(exclude={"contract", "generator", "temperature"})
    return SuiteConfig(
        **shared, contracts=names, generators=[config.generator], temperatures=[config.temperature]
    )


def run_suite(
    config: SuiteConfig,
    out: Path | None,
    options: RunOptions,
    contracts_dir: Path | None,
    engine: EngineName = "local",
    config_path: Path | None = None,
    name: str = "suite",
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
    work = _Work(config, cells, config.n, "suite", engine, config_path)
    return work.into(out, f"code-{config_path.stem if config_path else name}", options)


@dataclass(frozen=True)
class _Work:
    """Cells to generate and to measure together."""

    config: MeasureConfig
    cells: Sequence[tuple[Contract, GeneratorConfig, float]]
    n: int
    mode: str
    engine: EngineName = "local"
    config_path: Path | None = None

    def into(self, out: Path | None, name: str, options: RunOptions) -> Generated:
        """Check everything, then open the run directory, generate what it lacks, and measure."""
        contracts = {contract.id: contract for contract, _, _ in self.cells}
        config = stamped(self.config, contracts)
        folder = out or default_out(name, config)
        check_out(folder, config)
        check_options(config, options)
        jobs = self.jobs(folder)
        say(f"{self.told()} → {folder}")
        self.ready([job for job in jobs if job.todo()])
        command = f"code {self.mode}"
        with open_run(folder, command=command, config=config, config_path=self.config_path) as run:
            failures = self.generate(jobs, options)
            generations = [generation for job in jobs for generation in job.generations()]
            wanted = self.n * len(jobs)
            metrics = None
            if generations and not (failures and options.fail_on_error):
                metrics = measure_and_report(
                    run, generations, contracts, self.config, options, mode=self.mode
                )
            if failures:
                run.fail(f"{wanted - len(generations)} of {wanted} outputs are missing: {failures[0]}")
        return Generated(folder, metrics, failures, len(generations), wanted)

    def told(self) -> str:
        """What will be done, in a line."""
        (contract, generator, temperature), *others = self.cells
        if others:
            return f"{len(self.cells)} cells of {self.n} samples"
        return f"{contract.id}: {self.n} samples of {generator.name} at temperature {temperature:g}"

    def jobs(self, folder: Path) -> list[CellJob]:
        return [
            CellJob(
                path=(folder / "generations" / f"{number:04d}.jsonl").absolute(),
                generator=generator,
                contract_id=contract.id,
                prompt=contract.request,
                temperature=temperature,
                n=self.n,
                seed=self.config.seed,
            )
            for number, (contract, generator, temperature) in enumerate(self.cells)
        ]

    def ready(self, jobs: Sequence[CellJob]) -> None:
        """Refuse generators that cannot work, and load a model that is the only one."""
        needed = list({job.generator.model_dump_json(): job.generator for job in jobs}.values())
        if len(needed) == 1 and needed[0].loads_model and self.engine == "local":
            loaded(needed[0])
            return
        for generator in needed:
            generator.check(reachable=self.engine == "local")

    def generate(self, jobs: Sequence[CellJob], options: RunOptions) -> list[str]:
        """Generate what is not on record; returns what failed."""
        alone = self.engine == "local" and any(_loads_a_model(job) for job in jobs)
        workers = 1 if alone else min(options.processes, len(jobs))
        if len(jobs) == 1 and self.engine == "local":
            return collect_cell(resolved(jobs[0]))
        outcomes = run_tasks(
            collect_cell,
            [resolved(job) for job in jobs],
            engine=self.engine,
            workers=workers,
            label="generating",
            unit="cells",
            joined=True,
        )
        return [line for outcome in outcomes for line in _failures(outcome)]


def _failures(outcome: Outcome[list[str]]) -> list[str]:
    """What a cell could not generate. The user's mistakes stop the run in one line, bugs with a traceback."""
    mistake = "homeostat.core.errors.UserError: "
    if not outcome.ok and (outcome.error or "").startswith(mistake):
        raise UserError((outcome.error or "").removeprefix(mistake))
    return outcome.unwrap()


def _loads_a_model(job: CellJob) -> bool:
    """A local model uses all cores itself; several copies would fight over them and over memory."""
    return job.generator.kind in ("local", "callable")
