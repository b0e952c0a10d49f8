"""Damage to llama.cpp's slot files: answers without the guard and with it, against evaluating the prompt.

    python -m benchmarks.engine_slots [--model GGUF] [--prompts 4] [--tokens 16]

For every kind of damage a slot is saved, harmed, and restored into a server that knows nothing else; then the
prompt is asked. The answer from a cold server is the right one. A server that dies is started again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cachemedicpp.engines.environment import LlamaServer, engine_python, post
from cachemedicpp.engines.llamacpp import SUFFIX, SlotProxy
from homeostat.core.models.catalogue import DEFAULT_MODEL, known
from homeostat.core.models.fetching import installed
from homeostat.core.resources import resource

HEAD = 24  # bytes before the tokens of a slot file; the count of tokens is the last four of them
SLOT = "slot.bin"


class Bench:
    """A server behind the guard, its slots, and a copy of it that was set up otherwise."""

    def __init__(self, folder: Path, model: str, tokens: int) -> None:
        self.folder, self.tokens, self.model = folder, tokens, model
        self.python, self.setup = engine_python(), ""
        self._cold: dict[tuple[str, str], list[int]] = {}
        self.slots = folder / "slots"
        self._start(model)

    def _start(self, model: str, **more: Any) -> None:
        self.server = LlamaServer(self.python, model, self.slots, **more)
        self.proxy = SlotProxy(self.server.url, self.slots, 0, context=json.dumps(more))
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        self.guarded = f"http://127.0.0.1:{self.proxy.server_address[1]}"

    def stop(self) -> None:
        self.proxy.shutdown()
        self.proxy.server_close()
        self.server.stop()

    def again(self, model: str = "", **more: Any) -> None:
        """Another server on the same slots."""
        self.stop()
        self.setup = f"{model}{more or ''}"
        self._start(model or self.model, **more)

    def ask(self, prompt: str) -> list[int]:
        how = {"n_predict": self.tokens, "temperature": 0, "cache_prompt": True, "return_tokens": True}
        return list(
            post(f"{self.server.url}/completion", {"prompt": prompt, **how, "ignore_eos": True})["tokens"]
        )

    def cold(self, prompt: str) -> list[int]:
        """The answer of a server whose slot is empty; asked once."""
        place = (self.setup, prompt)
        if place not in self._cold:
            self._cold[place] = self.ask(prompt)
        return self._cold[place]

    def act(self, action: str, guard: bool = True) -> dict[str, Any]:
        url = self.guarded if guard else self.server.url
        return post(f"{url}/slots/0?action={action}", {"filename": SLOT})

    def save(self, prompt: str) -> None:
        self.act("erase")
        self.ask(prompt)
        assert "status" not in self.act("save")

    def restored(self, prompt: str, guard: bool) -> tuple[list[int] | None, bool]:
        """The answer after a restore, nothing if the server died; and whether the slot was refused."""
        try:
            self.act("erase")
            refused = "status" in self.act("restore", guard)
            return self.ask(prompt), refused
        except OSError:
            self.again()
            return None, False


Harm = Callable[[Bench, bytearray, str], bytes | bytearray | None]


def _rows(data: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Where the keys, then the values of every layer lie: first byte, tokens, bytes of a token.

    Before each stands the type of its numbers (1: float16) and the bytes of a token.
    """
    tokens = int.from_bytes(data[HEAD - 4 : HEAD], "little")
    for row in range(64, 16384, 64):
        mark = b"\1\0\0\0" + row.to_bytes(8, "little")
        first, stride = data.find(mark), len(mark) + tokens * row
        if first >= 0 and data[first + stride : first + stride + len(mark)] == mark:
            places = range(first, len(data) - stride + 1, stride)
            return [(p + len(mark), tokens, row) for p in places if data[p : p + len(mark)] == mark]
    raise AssertionError("no keys and values in this slot file")


def _layer(data: bytes | bytearray, index: int) -> slice:
    first, tokens, row = _rows(data)[index]
    return slice(first, first + tokens * row)


def _bits(share: float) -> Harm:
    def harm(bench: Bench, data: bytearray, other: str) -> bytearray:
        pick, rows = random.Random(f"{share}{len(data)}"), _rows(data)
        size = rows[0][1] * rows[0][2]
        for _ in range(int(share * size * len(rows))):
            data[pick.choice(rows)[0] + pick.randrange(size)] ^= 1 << pick.randrange(8)
        return data

    return harm


def _one_exponent(bench: Bench, data: bytearray, other: str) -> bytearray:
    data[_rows(data)[3][0] + 41] ^= 0x40  # the highest bit of a float16's exponent
    return data


def _zeroed(bench: Bench, data: bytearray, other: str) -> bytearray:
    for index in range(0, len(_rows(data)), 2):
        data[_layer(data, index)] = bytes(len(data[_layer(data, index)]))
    return data


def _moved(bench: Bench, data: bytearray, other: str) -> bytearray:
    for index in range(len(_rows(data))):
        data[_layer(data, index)] = b"\0\0" + data[_layer(data, index)][:-2]
    return data


def _exchanged(bench: Bench, data: bytearray, other: str) -> bytearray:
    one, two = _layer(data, 1), _layer(data, 2)
    data[one], data[two] = data[two], data[one]
    return data


def _another(bench: Bench, data: bytearray, other: str) -> bytes:
    fingerprint = (bench.slots / f"{SLOT}{SUFFIX}").read_bytes()
    bench.save(other)
    (bench.slots / f"{SLOT}{SUFFIX}").write_bytes(fingerprint)
    return (bench.slots / SLOT).read_bytes()


def _foreign(bench: Bench, data: bytearray, other: str) -> bytearray:
    theirs = _another(bench, data, other)
    for (mine, n, row), (their, m, _) in zip(_rows(data), _rows(theirs), strict=True):
        size = min(n, m) * row
        data[mine : mine + size] = theirs[their : their + size]
    return data


def _model(bench: Bench, data: bytearray, other: str) -> None:
    """A model of the same shape: two layers of this one exchanged."""
    from gguf import GGUFReader

    made = bench.folder / "other.gguf"
    if not made.exists():
        shutil.copy(bench.model, made)
        of = {t.name: t for t in GGUFReader(made).tensors}
        pairs = [(t, of[name.replace("blk.1.", "blk.2.")]) for name, t in of.items() if "blk.1." in name]
        with made.open("r+b") as file:
            for a, b in pairs:
                if a.n_bytes == b.n_bytes:
                    first, second = (bytes(t.data.tobytes()) for t in (a, b))
                    for t, content in ((a, second), (b, first)):
                        file.seek(t.data_offset)
                        file.write(content)
    bench.again(str(made))


def _elsewhere(**more: Any) -> Harm:
    def harm(bench: Bench, data: bytearray, other: str) -> None:
        bench.again(**more)

    return harm


def _unsealed(bench: Bench, data: bytearray, other: str) -> None:
    (bench.slots / f"{SLOT}{SUFFIX}").unlink()


KINDS: dict[str, Harm] = {
    "one bit in an exponent": _one_exponent,
    "bits, one byte in 10,000": _bits(1e-4),
    "bits, one byte in 100": _bits(1e-2),
    "every second part zeroed": _zeroed,
    "cut off in the middle": lambda b, data, o: data[: len(data) // 2],
    "empty": lambda b, data, o: b"",
    "bit in the header": lambda b, data, o: bytes([data[0] ^ 1]) + data[1:],
    "one token changed": lambda b, data, o: data[:HEAD] + bytes([data[HEAD] ^ 1]) + data[HEAD + 1 :],
    "one token fewer": lambda b, data, o: data[: HEAD - 4] + bytes([data[HEAD - 4] - 1]) + data[HEAD - 3 :],
    "moved by two bytes": _moved,
    "two layers' keys exchanged": _exchanged,
    "another prompt's numbers": _foreign,
    "another prompt's file": _another,
    "another model's": _model,
    "another base of rotation": _elsewhere(rope_freq_base=20_000.0),
    "another type of numbers": _elsewhere(cache_type_k="GGML_TYPE_Q8_0"),
    "saved without the guard": _unsealed,
    "none": lambda b, data, o: data,
}


def texts(count: int) -> list[str]:
    words = resource("data/offline/wikitext2_sample.txt").read_text(encoding="utf-8").split()
    return [" ".join(words[60 * n : 60 * n + 36]) for n in range(count)]


def trial(bench: Bench, harm: Harm, prompt: str, other: str) -> dict[str, str]:
    """What becomes of one saved slot, without the guard and with it."""
    bench.save(prompt)
    content = (bench.slots / SLOT).read_bytes()
    harmed = harm(bench, bytearray(content), other)
    if harmed is not None:
        (bench.slots / SLOT).write_bytes(harmed)
    bench.act("erase")
    cold, found = bench.cold(prompt), {}
    for guard in (True, False):
        answer, refused = bench.restored(prompt, guard)
        name = "died" if answer is None else "right" if answer == cold else "wrong"
        found["guarded" if guard else "bare"] = name + (", refused" if refused else "")
    return found


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--model", default="")
    ask.add_argument("--prompts", type=int, default=4)
    ask.add_argument("--tokens", type=int, default=16)
    ask.add_argument("--kinds", nargs="*", default=list(KINDS))
    given, start = ask.parse_args(), time.time()
    model = given.model or str(installed(known(DEFAULT_MODEL)))
    prompts, rows = texts(2 * given.prompts), {}
    with tempfile.TemporaryDirectory(prefix="homeostat-slots-") as folder:
        bench = Bench(Path(folder), model, given.tokens)
        for kind in given.kinds:
            trials = []
            for n in range(given.prompts):
                trials.append(trial(bench, KINDS[kind], prompts[2 * n], prompts[2 * n + 1]))
                if bench.setup:
                    bench.again()
            rows[kind] = {name: Counter(t[name] for t in trials) for name in ("bare", "guarded")}
            print(
                f"{kind:28} without: {_said(rows[kind]['bare']):40} with: {_said(rows[kind]['guarded'])}",
                flush=True,
            )
        bench.stop()
    print(f"RESULT {json.dumps(rows)}")
    print(f"{time.time() - start:.0f} s")


def _said(counts: Counter[str]) -> str:
    return "; ".join(f"{count} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
