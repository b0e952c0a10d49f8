"""Decoding beside other work: time per token beside busy single-threaded processes over the time alone.

python -m benchmarks.busy_threads [--busy 4] [--tokens 16]

One process for each load and way to wait: asleep, as the commands do, or spinning for a while, as OpenMP does
by itself. With b busy processes on c cores, the fair share of c threads is c / (b + c) of the machine. The
ratio is to spinning alone, the fastest. Run it on a machine without other work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

LIMIT_S = 300  # for one process; spinning threads on a busy machine may take far longer


def decode(tokens: int) -> float:
    """Seconds per token of the default model, batch 1."""
    import torch

    from homeostat.core.models import load_model
    from homeostat.core.threads import threads

    torch.set_num_threads(threads())
    model, tokenizer = load_model()
    ids = tokenizer("The capital of France is", return_tensors="pt")
    model.generate(**ids, max_new_tokens=2, do_sample=False)
    begun = time.perf_counter()
    model.generate(**ids, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=False)
    return (time.perf_counter() - begun) / tokens


def measured(policy: str, tokens: int) -> float | None:
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    if policy == "ACTIVE":
        del environment["OMP_WAIT_POLICY"]
    words = [sys.executable, "-m", "benchmarks.busy_threads", "--one", "--tokens", str(tokens)]
    try:
        shown = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return None
    return float(shown.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(decode(options.tokens))
        return
    fastest: float | None = None
    for busy in (0, options.busy):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for policy in ("ACTIVE", "PASSIVE"):
                found = measured(policy, options.tokens)
                fastest = fastest or found
                ratio = f"{found / fastest:.2f}" if found and fastest else "too slow"
                shown = f"{found * 1000:.0f} ms per token" if found else f"more than {LIMIT_S} s"
                print(f"{busy} busy processes, {policy.lower()} waiting: {shown}, ratio {ratio}", flush=True)
        finally:
            for other in others:
                other.kill()
                other.wait()


if __name__ == "__main__":
    main()
