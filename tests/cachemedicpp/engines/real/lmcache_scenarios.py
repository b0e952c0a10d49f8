"""LMCache with and without the guard's serde: `python lmcache_scenarios.py STAGE FOLDER` prints JSON.

`fill` computes two prompts with a server that stores every chunk twice, with the serde and without it.
`guarded` and `plain` start again from one of the two, so that everything comes from disk.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODEL = os.environ.get("HOMEOSTAT_TEST_MODEL", "")
PROMPTS = ["Ships steer by the lighthouse at night. " * 40, "Bees build combs of wax in the hive. " * 40]

OTHERS = [f"{word} grow slowly in the northern woods. " * 40 for word in ("Oaks", "Elms", "Firs")]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """An LMCache server started by our launcher."""

    def __init__(self, folder: Path, adapters: list[dict[str, Any]]) -> None:
        self.port, http = free_port(), free_port()
        command = [sys.executable, "-m", "cachemedicpp.engines.lmcache", "server"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--http-port", str(http)]
        command += ["--supported-transfer-mode", "engine_driven", "--chunk-size", "64", "--l1-size-gb", "1"]
        command += ["--shm-name", f"homeostat-{self.port}", "--disable-metrics"]
        command += ["--eviction-policy", "LRU"]
        for adapter in adapters:
            command += ["--l2-adapter", json.dumps(adapter)]
        self._log = (folder / "server.log").open("w")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        deadline = time.time() + 120
        while time.time() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError(f"no LMCache server: {(folder / 'server.log').read_text()[-2000:]}")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()


def adapter(folder: Path, serde: bool) -> dict[str, Any]:
    path = folder / ("guarded" if serde else "plain")
    path.mkdir(exist_ok=True)
    found: dict[str, Any] = {"type": "fs", "base_path": str(path)}
    return {**found, "serde": {"type": "guard"}} if serde else found


def ask(port: int) -> dict[str, Any]:
    from vllm import LLM, SamplingParams
    from vllm.config import KVTransferConfig

    engine = LLM(
        MODEL,
        dtype="float32",
        enforce_eager=True,
        block_size=32,
        max_model_len=1024,
        disable_hybrid_kv_cache_manager=True,
        kv_transfer_config=KVTransferConfig(
            kv_connector="LMCacheMPConnector",
            kv_role="kv_both",
            kv_load_failure_policy="recompute",
            kv_connector_extra_config={"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": port},
        ),
    )
    how = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    done = [engine.generate([prompt], how, use_tqdm=False)[0] for prompt in PROMPTS]
    return {
        "answers": [list(d.outputs[0].token_ids) for d in done],
        "cached": [d.num_cached_tokens or 0 for d in done],
    }


def settled(folder: Path) -> int:
    """Wait until the number of stored chunks no longer grows."""
    seen, deadline = -1, time.time() + 60
    while time.time() < deadline:
        now = len(list(folder.rglob("*.data")))
        if now == seen and now > 0:
            return now
        seen = now
        time.sleep(1.5)
    return seen


def fill(folder: Path) -> dict[str, Any]:
    server = Server(folder, [adapter(folder, True), adapter(folder, False)])
    try:
        found = ask(server.port)
        found["guarded"], found["plain"] = settled(folder / "guarded"), settled(folder / "plain")
        return found
    finally:
        server.close()


def _again(folder: Path, serde: bool) -> dict[str, Any]:
    server = Server(folder, [adapter(folder, serde)])
    try:
        found = ask(server.port)
        found["log"] = [
            line for line in (folder / "server.log").read_text().splitlines() if "bad-chunk" in line
        ]
        return found
    finally:
        server.close()


def guarded(folder: Path) -> dict[str, Any]:
    return _again(folder, True)


def plain(folder: Path) -> dict[str, Any]:
    return _again(folder, False)


def wrapped(folder: Path) -> dict[str, Any]:
    """The guard around LMCache's connector: what it loads is verified, also when it is damaged on the way."""
    from vllm import SamplingParams, TokensPrompt
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    from cachemedicpp.engines.environment import llm

    server = Server(folder, [])
    try:
        about = {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": server.port}
        inner = {"kv_connector": "LMCacheMPConnector", "kv_connector_extra_config": about}
        engine = llm(
            MODEL,
            {"mode": "wrap", "inner": inner},
            faults=True,
            dtype="float32",
            disable_hybrid_kv_cache_manager=True,
            num_gpu_blocks_override=34,
        )
        guard = get_kv_transfer_group()
        how = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        asked = [
            *OTHERS,
            *PROMPTS[:1],
            TokensPrompt(prompt_token_ids=list(range(100, 420))),
        ]  # one is whole chunks
        bind, spoil = guard.bind_connector_metadata, False
        damaged, rewritten = [], 0

        def bound(metadata: Any) -> None:
            nonlocal rewritten
            bind(metadata)
            start = {step.request: step.start for step in metadata.plan.steps}
            for load in metadata.plan.loads if spoil else ():
                fault = {"kind": "bit", "epsilon": 0.01}
                about = (fault, [load.block], f"w{len(damaged)}", [])
                damaged.append(engine.collective_rpc("fault_inject", args=about)[0])
                rewritten += start[load.request] == 319 and load == metadata.plan.loads[-1]

        guard.bind_connector_metadata = bound
        found: dict[str, Any] = {}
        for name in ("first", "again", "spoiled", "after"):
            spoil = name == "spoiled"
            before = engine.collective_rpc("fault_counts")[0]
            # the pool is small, so each drives what came before out of it
            done = [*engine.generate(asked[:3], how, use_tqdm=False)]
            done += [engine.generate([prompt], how, use_tqdm=False)[0] for prompt in asked[3:]]
            counts = engine.collective_rpc("fault_counts")[0]
            found[name] = {key: counts[key] - before[key] for key in counts}
            found[name]["answers"] = [list(d.outputs[0].token_ids) for d in done]
        return {**found, "damaged": damaged, "rewritten": rewritten}
    finally:
        server.close()


if __name__ == "__main__":
    print("RESULT " + json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))), flush=True)
    os._exit(0)  # LMCache's client would wait minutes for the server that was closed
