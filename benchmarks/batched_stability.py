"""Batched stability against a full forward for every direction.

Sensitivity of one prompt of 128 tokens on the default model, the same directions and norms on both sides;
every value must agree. Run it with `python -m benchmarks.batched_stability`. Target: 13 times.
"""

from __future__ import annotations

import argparse
import time

import torch

from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.defences import Defence
from cachemedicpp.stability.measures import Clean, Prompt, along_norms, perturbed
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.data import load_text
from homeostat.core.models import load_model


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directions", type=int, default=8)
    parser.add_argument("--batch", type=int, default=MedicConfig().stability.batch)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    model, tokenizer = load_model()
    config = MedicConfig.model_validate({"data": {"use_offline": True}})
    layers = config.repair.layers(int(model.config.num_hidden_layers))
    ids = tokenizer(load_text(config.data).text, add_special_tokens=False, verbose=False)["input_ids"][:128]
    norms, count, topk = [0.0, 0.5, 1.0, 2.0, 8.0], options.directions, 1000
    old = len(ids) - 1 - config.corruption.axes.N_recent

    wall, cpu = time.perf_counter(), time.process_time()
    prompt = Prompt.run(model, "benchmark", ids)
    deltas = along_norms(norms, count, layers, old, Stream((0,)))
    read = prompt.reader(model, Defence())
    fast = Clean.read(prompt.clean, read, topk, options.batch, min(layers)).drifts(deltas, [read])[0][0]
    batched = time.perf_counter() - wall, time.process_time() - cpu

    wall, cpu = time.perf_counter(), time.process_time()
    z_clean = _logits(model, ids, None)
    kept = z_clean.topk(topk).indices
    slow = [float((_logits(model, ids, delta) - z_clean)[kept].norm()) for delta in deltas]
    naive = time.perf_counter() - wall, time.process_time() - cpu

    worst = max(abs(a - b) for a, b in zip(fast, slow, strict=True)) / max(slow)
    print(f"{len(deltas)} perturbations ({count} directions per norm), {torch.get_num_threads()} threads")
    print(
        f"a full forward each {naive[0]:.1f} s, batched {batched[0]:.1f} s: "
        f"{naive[0] / batched[0]:.1f} times (CPU time {naive[1] / batched[1]:.1f})"
    )
    print(f"largest difference, relative to the largest drift: {worst:.1e}")


def _logits(model, ids, delta):  # type: ignore[no-untyped-def]
    """Prefill, perturb, and the last token: nothing shared between directions."""
    clean = Prompt.run(model, "naive", ids).clean
    cache = perturbed(clean, [delta])[0].cache()
    with torch.no_grad():
        query = torch.tensor([ids[-1:]], device=model.device)
        return model(query, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1].float()


if __name__ == "__main__":
    main()
