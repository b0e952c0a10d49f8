"""A second architecture for the repair benchmarks: a GPT-2 with learned positions, trained here in minutes.

    python -m benchmarks.tiny_gpt2 --out FOLDER [--steps 2000]

Trains on the text that comes with the program (`data/offline`), or on `--text`, with a tokenizer of that
text's own, until its loss is well below the unigram entropy, and saves a transformers folder that every
command takes as its model. Minutes do not teach a model to need a text's distant past, so every window is a
passage over and over: what comes next stands in the cache, and damage to it is felt. Passages have from 8 to
64 tokens, so that the model must look for what it copies; counting back will not do.

The last tenth of the text is kept apart and saved as `FOLDER/heldout.txt`. Operator G, calibrated on windows
like those of the training, is saved as `FOLDER/operator`.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from cachemedicpp.repair.gaussian import store
from cachemedicpp.repair.gaussian.calibrate import calibrate
from homeostat.core.models import load_model
from homeostat.core.resources import resource

WINDOW = 257
RATE = 2e-3
PERIODS = (8, 64)


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


def drawn(stream: torch.Tensor, count: int, length: int) -> torch.Tensor:
    """Windows `[count, length]` of passages from anywhere in `stream`, each over and over."""
    starts = torch.randint(0, len(stream) - length, (count,)).tolist()
    periods = torch.randint(PERIODS[0], PERIODS[1] + 1, (count,)).tolist()
    return torch.stack([repeated(stream[a : a + length], p) for a, p in zip(starts, periods, strict=True)])


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
    parser.add_argument("--vocabulary", type=int, default=512)
    args = parser.parse_args()
    text = (args.text or resource("data/offline/wikitext2_sample.txt")).read_text(encoding="utf-8")
    cut = text.rindex("\n", 0, len(text) * 9 // 10)
    tokenizer = tokenizer_for(text[:cut], args.vocabulary)
    ids = tokenizer(text[:cut])["input_ids"]
    torch.set_num_threads(1)  # so small a model gains nothing from more
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=128,
        n_layer=4,
        n_head=4,
        n_positions=1024,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    stream = torch.tensor(ids)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=args.steps, pct_start=0.1)
    target = unigram_entropy(ids)
    for step in range(args.steps):
        batch = drawn(stream, 8, WINDOW)
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
    (args.out / "heldout.txt").write_text(text[cut:].strip() + "\n", encoding="utf-8")
    calibrated(args.out, stream)


def calibrated(folder: Path, stream: torch.Tensor) -> None:
    """Save operator G for the model in `folder`, from windows like those that it was trained on."""
    model, _ = load_model(str(folder))
    torch.manual_seed(0)
    stats = calibrate(model, drawn(stream, 256, 256))
    settings = {"text": {"origin": "training text", "periods": list(PERIODS)}}
    store.save(store.make(stats, model, settings), folder / "operator")


if __name__ == "__main__":
    main()
