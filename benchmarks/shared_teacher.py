"""Training with shared passes against a step that shares nothing.

Both sides take the same optimisation steps on the default model, with the same batches, damage and objective;
the losses must agree. A step that shares nothing runs a clean pass of its own, prefills the prefix again for
the student, and reads the continuation through every layer. The figure is the ratio of wall times (and of CPU
times) in one run of `python -m benchmarks.shared_teacher`. Target: 2.5 with four draws per clean pass.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import torch

from cachemedicpp.cache.state import Geometry, KVState
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.operators.build import build_operator
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.data import load_text
from cachemedicpp.tasks.windows import Windows
from cachemedicpp.train.loop import Trainer
from cachemedicpp.train.passes import Teacher, frozen
from homeostat.core.models import load_model


class Alone(Trainer):
    """Every step on its own: a clean pass, a prefill, and a student that goes through every layer."""

    def _teach(self, batch: int) -> Teacher:
        self._taught = None
        taught = super()._teach(batch)
        with torch.no_grad():
            prefix = self.model(input_ids=taught.prefix, use_cache=True).past_key_values
            embedded = self.model.get_input_embeddings()(taught.continuation)
        return replace(taught, state=KVState(prefix), entered=(0, embedded))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--draws", type=int, default=4, help="steps that share one clean pass")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--layers", default="mid:4", help="protected layers")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    config = MedicConfig.model_validate(
        {
            "data": {"use_offline": True},
            "repair": {"family": "A", "protect_layers": options.layers},
            "corruption": {"axes": {"head_mode": "all"}},
            "train": {
                "steps": options.steps,
                "draws_per_batch": options.draws,
                "batch_size": options.batch_size,
            },
        }
    )
    model, tokenizer = load_model()
    sides = {"nothing shared": Alone, "shared": Trainer}
    trainers = {name: _trainer(kind, config, model, tokenizer) for name, kind in sides.items()}
    spent = {name: [0.0, 0.0] for name in sides}
    losses: dict[str, list[float]] = {name: [] for name in sides}
    with frozen(model):
        for number in range(options.steps):  # in turn, so that both meet the same disturbances
            for name, trainer in trainers.items():
                wall, cpu = time.perf_counter(), time.process_time()
                losses[name].append(trainer.step(number)["loss_total"])
                spent[name][0] += time.perf_counter() - wall
                spent[name][1] += time.process_time() - cpu
    (slow, slow_cpu), (fast, fast_cpu) = spent.values()
    worst = max(abs(a - b) / abs(a) for a, b in zip(*losses.values(), strict=True))
    print(
        f"{options.steps} steps of {options.batch_size} sequences, {options.draws} draws per clean pass, "
        f"layers {options.layers}, {torch.get_num_threads()} threads"
    )
    print(
        f"nothing shared {slow:.1f} s, shared {fast:.1f} s: {slow / fast:.2f} times "
        f"(CPU time {slow_cpu / fast_cpu:.2f})"
    )
    print(f"largest relative difference of a step's loss: {worst:.1e}")


def _trainer(kind: type[Trainer], config: MedicConfig, model: Any, tokenizer: Any) -> Trainer:
    operator = build_operator(config.repair, Geometry.of(model), config.seed)
    family = CorruptionFamily.build(config.corruption, model, tokenizer, operator.layers, config.seed)
    length = config.train.prefix_len + config.train.continuation_len
    return kind(
        config, model, operator, family, Windows.of(load_text(config.data, "train"), tokenizer, length)
    )


if __name__ == "__main__":
    main()
