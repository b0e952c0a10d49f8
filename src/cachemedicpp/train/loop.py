"""The training loop: corrupted and clean batches, checkpoints, and a record of every step."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from cachemedicpp.corruption import CorruptionFamily, Stream
from cachemedicpp.repair.operators import Trained
from cachemedicpp.tasks.config import MedicConfig, TrainConfig
from cachemedicpp.tasks.windows import Windows
from cachemedicpp.train import objective
from cachemedicpp.train.checkpoint import load_checkpoint, save_checkpoint
from cachemedicpp.train.local import Local
from cachemedicpp.train.passes import Student, Teacher, study, teach
from cachemedicpp.train.validate import Validation
from homeostat.core.errors import UserError
from homeostat.core.progress import Bar, progress
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir

CHECKPOINT = "checkpoint.safetensors"
BEST = "best.safetensors"
LOCAL = "local.safetensors"
_RISE = 50  # steps


class DivergedError(UserError):
    """Training cannot continue. This is no mistake in the input, so the exit code is 1."""

    exit_code = 1


@dataclass
class Trainer:
    """Everything a step needs. A step depends on its number and the parameters, never on earlier draws."""

    config: MedicConfig
    model: Any
    operator: Trained
    family: CorruptionFamily
    windows: Windows
    validation: Validation | None = None
    local: Local | None = None

    def __post_init__(self) -> None:
        self.operator.to(self.model.device).train().requires_grad_(True)
        groups = [{"params": found, "pace": pace} for found, pace in self.operator.paces()]
        self.optimiser = torch.optim.Adam(groups, lr=self.config.train.lr)
        self.first = 0 if self.local is None else self.config.train.local.steps  # steps of the local stage
        self._taught: tuple[int, Teacher] | None = None
        self.finished = False  # every step is done, or more of them do not help

    def step(self, number: int) -> Record:
        """One optimisation step: returns what was drawn and what was measured."""
        if self.local is not None and number < self.first:
            loss, fields = self.local.loss(number)
        else:
            loss, fields = self._distil(number - self.first)
        self._descend(number, loss, fields)
        return fields

    def _distil(self, number: int) -> tuple[Tensor, Record]:
        """The loss of one step through the model, and what is logged of it."""
        train = self.config.train
        stream = Stream((self.config.seed, "train", number))
        teacher = self._teach(number // train.draws_per_batch)
        clean = float(stream.at("clean").uniform(1)) < train.clean_batch_prob
        injection = None if clean else self.family.mixture(draw=number)
        student = study(self.model, teacher, self.operator, injection, observe=True)
        loss, fields = self._losses(teacher, student)
        fields["clean_batch"] = clean
        fields["corruption"] = [event.as_record() for event in student.plan.events] if student.plan else []
        return loss, fields

    def _descend(self, number: int, loss: Tensor, fields: Record) -> None:
        train = self.config.train
        if not torch.isfinite(loss):
            raise DivergedError(f"step {number}: the loss is {float(loss.detach())}; {_blame(fields)}")
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.operator.parameters(), train.grad_clip)
        if not torch.isfinite(norm):
            raise DivergedError(f"step {number}: the gradient is {float(norm)}; {_blame(fields)}")
        rate = local_rate(train, number) if number < self.first else learning_rate(train, number - self.first)
        for group in self.optimiser.param_groups:
            group["lr"] = group["pace"] * rate
        self.optimiser.step()
        fields["grad_norm"] = float(norm)

    def _teach(self, batch: int) -> Teacher:
        """The clean pass of a batch, kept while steps that draw other damage for it follow."""
        if self._taught is None or self._taught[0] != batch:
            train = self.config.train
            ids = self.windows.drawn(train.batch_size, Stream((self.config.seed, "data", batch)))
            self._taught = batch, teach(self.model, ids, train.prefix_len, min(self.operator.layers))
        return self._taught[1]

    def _losses(self, teacher: Teacher, student: Student) -> tuple[Tensor, Record]:
        train = self.config.train
        state = {layer: teacher.state[layer] for layer in self.operator.layers}
        kd = objective.kd_loss(teacher.logits, student.logits, train.T)
        zero = kd.new_zeros(())
        identity, contraction, rho = zero, zero, zero[None][:0]
        if student.plan is None:
            identity = objective.identity_loss(state, student.repaired, train.identity)
        else:
            rho = objective.contraction_ratios(state, student.stored, student.repaired)
            contraction = objective.contraction_loss(rho, train.alpha_contr)
        loss = kd + train.lambda_id * identity + train.lambda_contr * contraction
        if train.lambda_w:
            loss = loss + train.lambda_w * objective.weight_penalty(self.operator.parameters())
        return loss, {
            "loss_total": float(loss.detach()),
            "loss_kd": float(kd.detach()),
            "loss_id": float(identity.detach()),
            "loss_contr": float(contraction.detach()),
            "rho_mean": float(rho.detach().mean()) if rho.numel() else None,
            "rho_p95": float(rho.detach().quantile(0.95)) if rho.numel() else None,
        }

    def run(self, run: RunDir, stop_at: int | None = None) -> int:
        """Train from the last checkpoint on, stage by stage. Returns the number of finished steps."""
        train = self.config.train
        done = load_checkpoint(run.path / "checkpoints" / CHECKPOINT, self.operator, self.optimiser)
        total = self.first + train.steps
        stop = total if stop_at is None else min(stop_at, total)
        run.log("train").rewind(done)
        with progress(f"train {self.operator.name}", total, done=done) as bar:
            if self.local is not None and done < self.first:
                local = train.local
                checked = Checked(self.local, run, done, "validation_local", LOCAL)
                last = min(stop, self.first)
                every = Stage(0, done, last, self.first, local.validate_every, local.patience)
                done = self._stage(run, checked, every, bar)
                if not checked.over(every, done):
                    return done
                checked.restore(self.operator, self.optimiser)
                done = self.first
                save_checkpoint(run.path / "checkpoints" / CHECKPOINT, done, self.operator, self.optimiser)
            checked = Checked(self.validation, run, done, "validation", BEST)
            every = Stage(self.first, done, stop, total, train.checkpoint_every, train.patience)
            done = self._stage(run, checked, every, bar)
            self.finished = checked.over(every, done)
            if self.finished:
                checked.restore(self.operator, self.optimiser)
        return done

    def _stage(self, run: RunDir, checked: Checked, stage: Stage, bar: Bar) -> int:
        """The steps of one stage, with validations and checkpoints. Returns how many steps there are now."""
        path, log, board = run.path / "checkpoints" / CHECKPOINT, run.log("train"), _tensorboard(run.path)
        done, begin = stage.first, stage.begin
        try:
            if done == begin:
                checked.at(done, self.operator, self.optimiser)
            for number in range(stage.first, stage.last):
                if checked.enough(stage.patience):
                    break
                wall, cpu = time.perf_counter(), time.process_time()
                fields = self.step(number)
                spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
                log.append(number, **fields, **spent)
                done = number + 1
                _plot(board, number, fields)
                bar.advance(note=_note(fields))
                whole = (done - begin) % stage.every == 0
                if whole or done == stage.last:
                    if whole or done == stage.end:
                        checked.at(done, self.operator, self.optimiser)
                    save_checkpoint(path, done, self.operator, self.optimiser)
                    if checked.spent(self.config.train.minutes):
                        break
        except KeyboardInterrupt:
            if done > stage.first:
                save_checkpoint(path, done, self.operator, self.optimiser)
            raise
        finally:
            if board is not None:
                board.close()
        return done


@dataclass(frozen=True)
class Stage:
    """Steps `first` to `last` of a stage that has those from `begin` to `end`."""

    begin: int
    first: int
    last: int
    end: int
    every: int
    patience: int


class Measured(Protocol):
    def measure(self, operator: Trained) -> Record: ...


@dataclass
class Checked:
    """The validations of a run, and the best state among them. Without a validation it does nothing."""

    validation: Measured | None
    run: RunDir
    done: int  # steps that are done already: later validations are made again
    log: str
    file: str

    def __post_init__(self) -> None:
        self._log = self.run.log(self.log)
        self._minutes = False
        if self.validation is not None:
            self._log.rewind(self.done + 1)

    def at(self, step: int, operator: Trained, optimiser: torch.optim.Optimizer) -> None:
        """Validate the state after `step` steps and keep it if none before was as good."""
        if self.validation is None:
            return
        before = self._losses()
        self._log.rewind(step)  # a state is validated once
        measured = self.validation.measure(operator)
        if not before or measured["loss"] < min(before):
            save_checkpoint(self._path, step, operator, optimiser)
        self._log.append(step, **measured)

    def enough(self, patience: int) -> bool:
        """Whether the last `patience` validations brought nothing better than what was before them."""
        losses = self._losses()
        return (
            bool(patience) and len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])
        )

    def spent(self, minutes: float | None) -> bool:
        """Whether the steps so far have taken more CPU time than they may."""
        spent = sum(record["cpu_seconds"] for record in self.run.log("train").read())
        self._minutes = minutes is not None and spent > 60 * minutes
        return self._minutes

    def over(self, stage: Stage, done: int) -> bool:
        """Whether all steps are done, or more do not help or take too long."""
        return done == stage.end or self.enough(stage.patience) or self._minutes

    def restore(self, operator: Trained, optimiser: torch.optim.Optimizer) -> None:
        """Go back to the best state."""
        if self.validation is not None:
            load_checkpoint(self._path, operator, optimiser)

    @property
    def _path(self) -> Path:
        return self.run.path / "checkpoints" / self.file

    def _losses(self) -> list[float]:
        return [record["loss"] for record in self._log.read()] if self.validation is not None else []


def local_rate(train: TrainConfig, number: int) -> float:
    """The same in the local stage: a short rise, then a cosine down to 0."""
    local = train.local
    return local.lr * min(1.0, (number + 1) / _RISE) * (1 + math.cos(math.pi * number / local.steps)) / 2


def learning_rate(train: TrainConfig, number: int) -> float:
    """The learning rate of step `number`."""
    if train.lr_decay == "none":
        return train.lr
    return train.lr * (1 + math.cos(math.pi * number / train.steps)) / 2


def _blame(fields: Record) -> str:
    events = [f"{event['type']} {event['severity']}" for event in fields["corruption"]]
    drawn = ", ".join(events) or "none (a clean batch)"
    return f"corruption of this batch: {drawn}; lower train.lr or the severity"


def _note(fields: Record) -> str:
    rho = fields["rho_mean"]
    return f"loss {fields['loss_total']:.4f}" + ("" if rho is None else f" rho {rho:.3f}")


def _tensorboard(folder: Path) -> Any:
    """A TensorBoard writer where the package is installed, else None."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))


def _plot(board: Any, number: int, fields: Record) -> None:
    if board is None:
        return
    for name, value in fields.items():
        if isinstance(value, float) and math.isfinite(value):
            board.add_scalar(f"train/{name}", value, number)
