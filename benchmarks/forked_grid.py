"""The forked grid against the naive way: a full forward for every example, corruption cell and defence.

Both sides score the same cells of the three tasks on the default model; every value must agree. Run it with
`python -m benchmarks.forked_grid`. Ratios of wall time and of CPU time, in one run; target: 8 over
the three tasks. `--sst2`, `--wikitext` and `--needle` set the number of examples, `--quick` small ones.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.eval.grid import corrupt_forks, evaluate_example, family_for, grid_cells, prefill
from cachemedicpp.repair.defences import Defence, heuristic_defences
from cachemedicpp.tasks import build_tasks
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.models import load_model


def naive(
    model: Any, family: Any, task: Any, example: Any, cells: Any, defences: Any
) -> dict[str, list[float]]:
    """One prefill and one scoring for every cell and defence, nothing shared."""
    found: dict[str, list[float]] = {defence.name: [] for defence in defences}
    fitted = family_for(family, task, example)
    with torch.no_grad():
        for cell in cells:
            for defence in defences:
                clean = prefill(model, example.stored)
                state, forks = corrupt_forks(clean, fitted, example, [cell])
                cache = state.cache()
                defence.mend(model, cache, forks)
                with defence.attached(model):
                    found[defence.name].append(task.score(model, example, cache, 1)[0].value)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wikitext", type=int, default=2)
    parser.add_argument("--sst2", type=int, default=6)
    parser.add_argument("--needle", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64, help="the most forks in a batch (eval.fork_batch)")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="one example of Wikitext and three of SST-2")
    options = parser.parse_args()
    if options.quick:
        options.wikitext, options.sst2 = 1, 3
    if options.threads:
        torch.set_num_threads(options.threads)
    config = MedicConfig.model_validate(
        {
            "data": {
                "use_offline": True,
                "wikitext2": {"num_sequences": options.wikitext, "score_len": 64},
                "sst2": {"num_examples": options.sst2},
                "long_context": {"num_examples": options.needle, "context_len": 512},
            },
            "eval": {"max_seq_len": 256, "corruption_eval": {"eps": [0.08, 0.16, 0.32]}},
            "corruption": {"axes": {"head_mode": "all"}},
        }
    )
    model, tokenizer = load_model()
    layers = config.repair.layers(int(model.config.num_hidden_layers))
    family = CorruptionFamily.build(config.corruption, model, tokenizer, layers, config.seed)
    cells = grid_cells(config.eval.corruption_eval.types, config.eval.corruption_eval.eps)
    defences = [
        Defence(),
        *(d for d in heuristic_defences(layers, oracle=False) if d.name == "clipping_renorm"),
    ]
    spent = {"naive": [0.0, 0.0], "forked": [0.0, 0.0]}
    worst = 0.0
    print(f"{len(cells)} cells × {len(defences)} defences, {torch.get_num_threads()} threads")
    for task in build_tasks(config, model, tokenizer):
        own = {"naive": [0.0, 0.0], "forked": [0.0, 0.0]}
        for example in task.examples:
            wall, cpu = time.perf_counter(), time.process_time()
            slow = naive(model, family, task, example, cells, defences)
            _add(own["naive"], wall, cpu)
            wall, cpu = time.perf_counter(), time.process_time()
            fast = evaluate_example(model, family, task, example, cells, defences, options.rows)["scores"]
            _add(own["forked"], wall, cpu)
            for name, values in slow.items():
                for one, other in zip(values, fast[name], strict=True):
                    worst = max(worst, abs(one - other["value"]) / max(abs(one), 1e-9))
        for side, (wall, cpu) in own.items():
            spent[side][0] += wall
            spent[side][1] += cpu
        print(f"{task.name:10s} {len(task.examples)} examples: {_ratio(own)}", flush=True)
    print(f"all tasks: {_ratio(spent)}")
    print(f"largest relative difference of a value: {worst:.1e}")


def _add(total: list[float], wall: float, cpu: float) -> None:
    total[0] += time.perf_counter() - wall
    total[1] += time.process_time() - cpu


def _ratio(spent: dict[str, list[float]]) -> str:
    (slow, slow_cpu), (fast, fast_cpu) = spent["naive"], spent["forked"]
    ratios = f"{slow / fast:.1f} times (CPU time {slow_cpu / fast_cpu:.1f})"
    return f"naive {slow:.1f} s, forked {fast:.1f} s: {ratios}"


if __name__ == "__main__":
    main()
