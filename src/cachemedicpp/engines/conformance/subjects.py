"""Engines behind one interface: ask for an answer, forget what is in memory, start again over the same store.

`Session` is one engine; all but transformers are processes of their own (`python -m …conformance.subjects
JOB`), which take `{"do": NAME, …}` line by line. An answer has its tokens, how many of the prompt were not
computed (`cached`), a hash of every whole block, and how many of these were reused.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cachemedicpp.engines import environment
from cachemedicpp.engines.keys import chain
from homeostat.core.errors import UserError

PLANTED = ("layout", "dtype", "table", "version")  # of the transformers subject
NEW = 6  # tokens of an answer
POOL = 40  # blocks that an engine may hold


@dataclass(frozen=True)
class Job:
    """What a subject is started with."""

    engine: str
    model: str
    dtype: str = "float32"
    block: int = 16
    connector: str = ""
    version: str = ""
    planted: str = ""
    folder: str = ""


class Session:
    def __init__(self, job: Job) -> None:
        self._here = Transformers(job) if job.engine == "transformers" else None
        if self._here is None:
            self._process = subprocess.Popen(  # noqa: S603
                [str(environment.engine_python()), "-m", __name__, json.dumps(asdict(job))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **environment.settings()},
            )

    def ask(self, prompt: list[int]) -> dict[str, Any]:
        return self._here.ask(prompt) if self._here else dict(self._order("ask", prompt=prompt))

    def forget(self) -> None:
        if self._here:
            self._here.forget()
        else:
            self._order("forget")

    def close(self) -> None:
        if not self._here:
            self._process.kill()
            self._process.communicate()

    def _order(self, do: str, **about: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps({"do": do, **about}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EOFError("it ended") from None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                found = json.loads(line.removeprefix("ANSWER "))
                if "error" in found:
                    raise RuntimeError(found["error"])
                return found
        raise EOFError("it ended")


@lru_cache(maxsize=1)
def _model(folder: str, dtype: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)


class Transformers:
    """A small engine with a store: transformers' cache, our keys and our folder of blocks. Faults can be
    planted: all of them leave checksums valid."""

    def __init__(self, job: Job) -> None:
        import torch

        from cachemedicpp.engines.events import Events
        from cachemedicpp.engines.store import BlockStore

        self.job, self.dtype = job, getattr(torch, job.dtype)
        self.model = _model(job.model, self.dtype)
        self.store, self.memory = BlockStore(job.folder, Events()), dict[str, Any]()
        bound = {"model": job.model, "dtype": job.dtype, "version": job.version}
        bound.pop(job.planted, None)
        self.root = f"{bound}-{job.block}"

    def ask(self, prompt: list[int]) -> dict[str, Any]:
        import torch
        from transformers import DynamicCache

        size, keys = self.job.block, chain(prompt, self.job.block, self.root)
        blocks = self._found(keys[: (len(prompt) - 1) // size])
        reused, cache = len(blocks), DynamicCache()
        for number in range(self.model.config.num_hidden_layers if blocks else 0):
            K, V = torch.cat([block[number] for block in blocks], 1).chunk(2)  # [H, T, d] each
            cache.update(K[None], V[None], number)
        tokens, given = list[int](), torch.tensor([prompt[reused * size :]])
        with torch.no_grad():
            for _ in range(NEW):
                logits = self.model(given, past_key_values=cache, use_cache=True).logits
                tokens.append(int(logits[0, -1].argmax()))
                given = torch.tensor([tokens[-1:]])
        layers: Any = cache.layers
        whole = torch.stack([torch.cat((layer.keys[0], layer.values[0])) for layer in layers])
        made = [whole[:, :, i * size : (i + 1) * size] for i in range(len(keys))]  # [L, 2H, size, d]
        for key, block in list(zip(keys, made, strict=True))[reused:]:
            self._keep(key, block.contiguous())
        return _answer(tokens, reused * size, made, reused)

    def _keep(self, key: str, block: Any) -> None:
        from cachemedicpp.guard.fingerprint import digest, weights

        if self.job.planted == "version" and self.job.version:
            block = block.roll(block.shape[1] // 2, 1).contiguous()  # values first, then keys
        sums = digest(block, weights(block, block.shape[2])).sum(1).numpy()
        while len(self.memory) >= POOL:
            self.memory.pop(next(iter(self.memory)))
        self.memory[key] = block
        self.store.write(key, "blocks", block, sums)

    def _found(self, keys: tuple[str, ...]) -> list[Any]:
        from cachemedicpp.engines.store import RefusedError
        from cachemedicpp.guard.fingerprint import digest, weights

        blocks = []
        for index, key in enumerate(keys):
            if self.job.planted == "table" and index + 1 < len(keys):
                key = keys[index + 1]
            try:
                block = self.memory.get(key)
                if block is None:
                    block, sums = self.store.load(key, "blocks")
                    if digest(block, weights(block, block.shape[2])).sum(1).numpy().tolist() != sums.tolist():
                        break
            except (RefusedError, UserError):
                break
            if self.job.planted == "layout":
                block = block.transpose(2, 3).reshape(block.shape)
            same = block.dtype.itemsize == self.dtype.itemsize
            blocks.append(block.view(self.dtype) if same else block.to(self.dtype))
        return blocks

    def forget(self) -> None:
        self.memory.clear()


class VLLM:
    """vLLM with a connector: the guard's store by default, or any by name."""

    def __init__(self, job: Job) -> None:
        guard: dict[str, Any] = {
            "mode": "store",
            "store": job.folder,
            "model_id": f"{job.model}{job.version}",
        }
        if job.connector:
            inner = {"kv_connector_extra_config": {"shared_storage_path": job.folder}}
            guard = {"mode": "wrap", "inner": {"kv_connector": job.connector, "kv_role": "kv_both", **inner}}
        more = {"dtype": job.dtype, "block_size": job.block, "num_gpu_blocks_override": POOL}
        self.job = job
        self.llm = environment.llm(job.model, guard, faults=True, **more, max_model_len=16 * job.block)

    def ask(self, prompt: list[int]) -> dict[str, Any]:
        import torch
        from vllm import SamplingParams
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        how = SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True)
        done = self.llm.generate({"prompt_token_ids": prompt}, how, use_tqdm=False)[0]
        tables = self.llm.collective_rpc("fault_blocks")[0]
        ids = tables[max(tables, key=lambda name: int(name.split("-")[0]))]
        cache = self.llm.collective_rpc("fault_cache")[0]
        blocks = [torch.cat(cache.kv(block), 1) for block in ids[: len(prompt) // self.job.block]]
        if not self.job.connector:
            get_kv_transfer_group().source.store.flush()
        cached = done.num_cached_tokens or 0
        return _answer(list(done.outputs[0].token_ids), cached, blocks, cached // self.job.block)

    def forget(self) -> None:
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("the engine did not forget its prefix cache")


class Llama:
    """llama.cpp's server: a slot file for every prompt; that of the most similar one is restored."""

    def __init__(self, job: Job) -> None:
        import threading

        from cachemedicpp.engines.llamacpp import SlotProxy

        self.slots = Path(job.folder)
        types = {"float32": "GGML_TYPE_F32", "bfloat16": "GGML_TYPE_BF16", "float16": "GGML_TYPE_F16"}
        more = {"cache_type_k": types[job.dtype], "cache_type_v": types[job.dtype], "n_ctx": 64 * job.block}
        server = environment.LlamaServer(Path(sys.executable), job.model, self.slots, **more)
        proxy = SlotProxy(server.url, self.slots, 0, context=f"{job.dtype}{job.version}")
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        self.url = server.url if job.connector == "none" else f"http://127.0.0.1:{proxy.server_address[1]}"

    def ask(self, prompt: list[int]) -> dict[str, Any]:
        mine = ".".join(f"{token:x}" for token in prompt[::16])
        names = [path.name for path in self.slots.iterdir() if path.suffix == ".bin"]
        best = max(names, key=lambda name: sum(map(str.__eq__, name, mine)), default="")
        if best:
            environment.post(f"{self.url}/slots/0?action=restore", {"filename": best})
        how = {"n_predict": NEW, "temperature": 0, "return_tokens": True, "ignore_eos": True}
        done = environment.post(f"{self.url}/completion", {"prompt": prompt, **how})
        environment.post(f"{self.url}/slots/0?action=save", {"filename": f"{mine}.bin"})
        return {"tokens": done["tokens"], "cached": done["timings"]["cache_n"], "blocks": [], "reused": 0}

    def forget(self) -> None:
        environment.post(f"{self.url}/slots/0?action=erase", {})


class SGLangStorage:
    """SGLang's storage without a server: numbers are drawn from a page's key, the answer from the pages."""

    def __init__(self, job: Job) -> None:
        from types import SimpleNamespace

        import torch
        from sglang.srt.mem_cache import hicache_storage
        from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

        from cachemedicpp.engines import sglang

        os.environ["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] = job.folder
        self.job, self.dtype = job, getattr(torch, job.dtype)
        sglang.VERSION += job.version
        named = {"module_path": sglang.__name__, "class_name": "GuardStorage", "backend_name": "guard"}
        config = hicache_storage.HiCacheStorageConfig(
            **dict.fromkeys(("tp_rank", "pp_rank", "attn_cp_rank"), 0),
            **dict.fromkeys(("tp_size", "pp_size", "attn_cp_size"), 1),
            **dict.fromkeys(("is_mla_model", "enable_storage_metrics", "is_page_first_layout"), False),
            model_name=Path(job.model).name,
            extra_config=None if job.connector else named,
        )
        pool = SimpleNamespace(dtype=self.dtype, page_size=job.block, layout="layer_first")
        self.storage = StorageBackendFactory.create_backend(job.connector or "dynamic", config, pool)
        self.storage.register_mem_pool_host(pool)

    def ask(self, prompt: list[int]) -> dict[str, Any]:
        import torch

        keys, hits = chain(prompt, self.job.block, ""), 0
        pages: list[Any] = []
        for key in keys:
            page = torch.zeros(self.job.block * 128, dtype=self.dtype)
            right = torch.randn(page.shape, generator=torch.Generator().manual_seed(int(key[:12], 16)))
            try:
                got = self.storage.get(key, page) if len(pages) == hits else None
            except OSError:
                got = None
            hits += got is not None
            pages.append(right.to(self.dtype) if got is None else got)
            if got is None:
                self.storage.set(key, pages[-1])
        marks = [int(_mark(page)[:6], 16) for page in pages]
        return _answer(marks, hits * self.job.block, pages, hits)

    def forget(self) -> None:
        return


SUBJECTS: dict[str, Any] = {
    "transformers": Transformers,
    "vllm": VLLM,
    "llama.cpp": Llama,
    "sglang-storage": SGLangStorage,
}


def _mark(block: Any) -> str:
    import torch

    return hashlib.sha256(block.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def _answer(tokens: list[int], cached: int, blocks: Any, reused: int) -> dict[str, Any]:
    return {
        "tokens": tokens,
        "cached": cached,
        "blocks": [_mark(block) for block in blocks],
        "reused": reused,
    }


def main() -> None:
    subject: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if subject is None:
                job = Job(**json.loads(sys.argv[1]))
                subject = SUBJECTS[job.engine](job)
            found = getattr(subject, order.pop("do"))(**order) or {}
        except Exception as error:  # an engine's own, of whatever kind
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print("\nANSWER " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
