"""A second architecture for the repair benchmarks: a GPT-2 with learned positions, trained here in minutes.

    python -m benchmarks.tiny_gpt2 --out FOLDER [--steps 2000]

Trains on the text that comes with the program (`data/offline`), or on `--text`, with a tokenizer of that
text's own, until its loss is well below the unigram entropy, and saves a transformers folder that every
command takes as its model. Minutes do not teach a model to need a text's distant past, so every window is a
passage of `--period` tokens over and over: what comes next stands in the cache, and damage to it is felt.
Operator G, calibrated on such windows, is saved with the model as `FOLDER/operator`.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from cachemedicpp.gaussian import store
from cachemedicpp.gaussian.calibrate import calibrate
from homeostat.models import load_model
from homeostat.resources import resource

WINDOW = 257
PERIOD = 32


def tokenizer_for(text: str, vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of the text's own."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        [text],
        trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<end>"], initial_alphabet=alphabet),
    )
    names = dict.fromkeys(("eos_token", "bos_token", "pad_token"), "<end>")
    return PreTrainedTokenizerFast(tokenizer_object=bpe, **names)


def repeated(ids: torch.Tensor, period: int) -> torch.Tensor:
    """The first `period` tokens of each row, over and over: `[..., T]` to `[..., T]`."""
    return ids[..., torch.arange(ids.shape[-1]) % period]


def unigram_entropy(ids: list[int]) -> float:
    total = len(ids)
    return -sum(n / total * math.log(n / total) for n in Counter(ids).values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--text", type=Path, help="default: the offline sample")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--period", type=int, default=PERIOD)
    parser.add_argument("--vocabulary", type=int, default=512)
    args = parser.parse_args()
    text = (args.text or resource("data/offline/wikitext2_sample.txt")).read_text(encoding="utf-8")
    tokenizer = tokenizer_for(text, args.vocabulary)
    ids = tokenizer(text)["input_ids"]
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=128,
        n_layer=4,
        n_head=4,
        n_positions=1024,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    stream = torch.tensor(ids)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=args.steps)
    target = unigram_entropy(ids)
    for step in range(args.steps):
        starts = torch.randint(0, len(stream) - WINDOW, (8,))
        batch = torch.stack([repeated(stream[a : a + WINDOW], args.period) for a in starts])
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        if step % 100 == 0 or step == args.steps - 1:
            print(f"step {step}: loss {float(loss.detach()):.3f} (unigram {target:.3f})", flush=True)
    model.eval().save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    calibrated(args.out, stream, args.period)


def calibrated(folder: Path, stream: torch.Tensor, period: int) -> None:
    """Save operator G for the model in `folder`, from windows like those that it was trained on."""
    model, _ = load_model(str(folder))
    windows = stream[: len(stream) // 256 * 256].view(-1, 256)[:128]
    settings = {"text": {"origin": "training text", "period": period}}
    store.save(store.make(calibrate(model, repeated(windows, period)), model, settings), folder / "operator")


if __name__ == "__main__":
    main()
