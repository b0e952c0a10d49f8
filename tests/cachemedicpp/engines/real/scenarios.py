"""What the real-engine tests do in an engine's environment: `python scenarios.py NAME FOLDER` prints JSON.

Each scenario starts one engine in its own process, so that nothing is left of it afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cachemedicpp.engines.environment import llm

MODEL = os.environ.get("HOMEOSTAT_TEST_MODEL", "")
PREFIX = "The history of the lighthouse begins with fires built on hilltops. " * 20
ENDS = [f"In the year {1500 + 20 * i}," for i in range(16)]


class Session:
    def __init__(self, guard: dict[str, Any] | None, **engine: Any) -> None:
        self.engine = llm(MODEL, guard, faults=True, **{"dtype": "float32", **engine})

    def rpc(self, name: str, *given: Any) -> Any:
        return self.engine.collective_rpc(name, args=given)[0]

    def counts(self) -> dict[str, float]:
        return dict(self.rpc("fault_counts"))

    def fresh(self) -> None:
        assert self.engine.reset_prefix_cache(), "the prefix cache was not forgotten"

    def ask(self, prompts: list[str], tokens: int = 8) -> tuple[list[list[int]], list[int]]:
        """Answers, and how many tokens of each prompt were not computed."""
        from vllm import SamplingParams

        how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        done = self.engine.generate(prompts, how, use_tqdm=False)
        return [list(d.outputs[0].token_ids) for d in done], [d.num_cached_tokens or 0 for d in done]

    def prefix_blocks(self) -> list[int]:
        return max(self.rpc("fault_blocks").values(), key=len)

    def start(self, name: str, prompt: str, tokens: int) -> None:
        from vllm import SamplingParams

        how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        self.engine.llm_engine.add_request(name, prompt, how)

    def drain(self, limit: int = 2000) -> dict[str, list[int]]:
        """Step until nothing is left; answers by request."""
        answers: dict[str, list[int]] = {}
        for _ in range(limit):
            if not self.engine.llm_engine.has_unfinished_requests():
                return answers
            for output in self.engine.llm_engine.step():
                answers[output.request_id] = list(output.outputs[0].token_ids)
        raise AssertionError("the engine does not end")


def paged(folder: Path) -> dict[str, Any]:
    """Sharers of damaged blocks, with chunked prefill; damage while decoding; aborts."""
    session = Session({"every": 1, "budget": 1000}, long_prefill_token_threshold=40)
    found: dict[str, Any] = {}
    for sharers in (4, 16):
        prompts = [f"{PREFIX}{end}" for end in ENDS[:sharers]]
        session.fresh()
        session.ask([PREFIX], 1)
        clean, hits = session.ask(prompts)
        session.fresh()
        session.ask([PREFIX], 1)
        before = session.counts()
        blocks = session.prefix_blocks()[1:4]
        changed = session.rpc("fault_inject", {"kind": "bit", "epsilon": 0.01}, blocks, f"s{sharers}", [])
        damaged, damaged_hits = session.ask(prompts)
        after = session.counts()
        found[f"sharers{sharers}"] = {
            "same": clean == damaged,
            "hits": min(hits + damaged_hits),
            "numbers": changed,
            "bad": after["bad"] - before["bad"],
            "quiet": before["bad"] if sharers == 4 else None,
        }
    found["decoding"] = _decoding(session)
    found["abort"] = _abort(session)
    found["counts"] = session.counts()
    return found


def _decoding(session: Session) -> dict[str, Any]:
    """A bit is flipped in a block of a running request, whole or not, between two steps."""
    results = []
    for index in (0, 3, -1):
        answers = []
        for damage in (False, True):
            session.fresh()
            session.start("r", PREFIX, 12)
            session.start("q", f"{PREFIX[:400]} And so", 12)
            for step in range(400):
                if step == 12 and damage:
                    blocks = next(v for k, v in session.rpc("fault_blocks").items() if k.startswith("r"))
                    used = blocks[index]
                    session.rpc("fault_inject", {"kind": "bit", "epsilon": 0.5}, [used], f"d{index}", [])
                if not session.engine.llm_engine.has_unfinished_requests():
                    break
                ended = [output for output in session.engine.llm_engine.step() if output.finished]
                answers += [(output.request_id, list(output.outputs[0].token_ids)) for output in ended]
        half = len(answers) // 2
        results.append(sorted(answers[:half]) == sorted(answers[half:]))
    return {"same": results}


def _abort(session: Session) -> dict[str, Any]:
    """The request that rewrites a damaged block goes away; the others still get clean answers."""
    prompts = [f"{PREFIX}{end}" for end in ENDS[:4]]
    session.fresh()
    session.ask([PREFIX], 1)
    clean, _ = session.ask(prompts)
    session.fresh()
    session.ask([PREFIX], 1)
    block = session.prefix_blocks()[0]
    session.rpc("fault_inject", {"kind": "zeroed"}, [block], "a", [])
    for number, prompt in enumerate(prompts):
        session.start(f"a{number}", prompt, 8)
    session.engine.llm_engine.step()
    session.engine.llm_engine.abort_request(["a0"])
    answers = session.drain()
    return {"same": [answers[f"a{i}"] for i in (1, 2, 3)] == clean[1:]}


def preemption(folder: Path) -> dict[str, Any]:
    """A pool too small for all requests: some lose their blocks, come back, and meet damaged ones."""
    answers = []
    counts: dict[str, float] = {}
    small = {"num_gpu_blocks_override": 30, "max_model_len": 640, "max_num_seqs": 8}
    session = Session({"every": 4}, **small, disable_log_stats=False)
    prompts = [f"{PREFIX[:800]}{end}" for end in ENDS[:6]]
    for damage in (False, True):
        session.fresh()
        session.ask([PREFIX[:800]], 1)
        if damage:
            block = session.prefix_blocks()[1]
            session.rpc("fault_inject", {"kind": "bit", "epsilon": 0.01}, [block], "p", [])
        made, _ = session.ask(prompts, 150)
        answers.append(made)
    counts = session.counts()
    metrics = {metric.name: metric for metric in session.engine.get_metrics()}
    preempted = metrics["vllm:num_preemptions"].value
    return {"same": answers[0] == answers[1], "counts": counts, "preempted": preempted}


def store(folder: Path) -> dict[str, Any]:
    """Blocks go to a folder and come back; whatever is wrong with a file or the disk, it is not served."""
    kv = folder / "kv"
    kv.mkdir()
    small = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(kv)], check=False).returncode
        == 0
    )
    session = Session({"mode": "store", "store": str(kv), "log": str(folder / "events")})
    prompts = [f"{PREFIX}{end}" for end in ENDS[:3]]
    found: dict[str, Any] = {}

    def flush() -> None:
        time.sleep(0.5)  # the writer thread; a block that is not there yet would be a miss, and asserted

    session.ask([PREFIX], 1)
    clean, _ = session.ask(prompts)
    flush()
    files = sorted(kv.glob("??/*.kv"), key=lambda path: path.stat().st_mtime)
    found["stored"] = session.counts()["stored"]

    def again(name: str) -> None:
        session.fresh()
        before = session.counts()
        answers, cached = session.ask(prompts)
        after = session.counts()
        found[name] = {
            "same": answers == clean,
            "cached": min(cached),
            "loaded": after["loaded"] - before["loaded"],
            "refused": after["refused"] - before["refused"],
        }
        flush()

    again("whole")
    data = bytearray(files[1].read_bytes())
    data[len(data) // 2] ^= 4
    files[1].write_bytes(data)
    again("flipped")
    files[0].write_bytes(files[0].read_bytes()[:5000])
    again("cut")
    files[2].write_bytes(files[3].read_bytes())
    again("another")
    _relabel(files[1])
    again("layout")
    again("mended")
    ours = set(kv.glob("??/*.kv"))
    subprocess.run([sys.executable, __file__, "write_other", str(folder)], check=True, capture_output=True)
    theirs = sorted(set(kv.glob("??/*.kv")) - ours)
    found["theirs"] = len(theirs)
    again("beside")  # another model's blocks, in another type, lie in the same folder
    files[1].write_bytes(theirs[1].read_bytes())  # and one under our name
    again("foreign")
    if small:
        found["full"] = _full_disk(session, kv, folder / "events")
        again("emptied")
    return found


def _full_disk(session: Session, kv: Path, events: Path) -> dict[str, Any]:
    """No space is left: nothing is stored, answers are as always."""
    prompt = f"Ships. {PREFIX}"
    clean, _ = session.ask([prompt])
    time.sleep(0.5)
    session.fresh()
    for path in kv.glob("??/*.kv"):
        path.unlink()
    with contextlib.suppress(OSError), (kv / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    stored = session.counts()["stored"]
    answers, cached = session.ask([prompt])
    time.sleep(0.5)
    left = [path.name for path in kv.glob("??/*")]
    said = [line for line in events.read_text().splitlines() if "store-failed" in line]
    (kv / "filler").unlink()
    return {
        "same": answers == clean,
        "cached": cached,
        "stored": session.counts()["stored"] - stored,
        "left": left,
        "said": said,
    }


def write_other(folder: Path) -> dict[str, Any]:
    """Another model stores the same prompt in the same folder, in another type."""
    global MODEL
    MODEL = os.environ["HOMEOSTAT_TEST_OTHER"]
    session = Session({"mode": "store", "store": str(folder / "kv")}, dtype="bfloat16")
    session.ask([PREFIX], 1)
    time.sleep(1.0)
    return session.counts()


def _relabel(path: Path) -> None:
    """The same block, honestly sealed for another layout."""
    from safetensors import safe_open
    from safetensors.torch import save

    from cachemedicpp.engines.store import _seal

    with safe_open(path, framework="np") as file:
        about = file.metadata()
    import numpy as np
    from safetensors.torch import load_file

    sums = np.array([int(n) for n in about["sums"].split(",")], np.int64)
    about = {**about, "layout": "elsewhere", "seal": _seal(about["key"], "elsewhere", sums)}
    path.write_bytes(save(load_file(path), metadata=about))


def write_store(folder: Path) -> dict[str, Any]:
    """For the test that kills it: writes blocks as fast as it can, for ever."""
    session = Session({"mode": "store", "store": str(folder / "kv")})
    (folder / "ready").touch()
    for number in range(10_000):
        session.ask([f"Number {number}. {PREFIX}"], 1)
    return {}


def shared_store(folder: Path) -> dict[str, Any]:
    """After an engine was killed while it wrote: another uses the folder."""
    code = [sys.executable, __file__, "write_store", str(folder)]
    victim = subprocess.Popen(code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    session = Session({"mode": "store", "store": str(folder / "kv")})  # two engines on one store
    prompts = [f"Number {number}. {PREFIX}" for number in range(2)]
    deadline = time.time() + 120
    while len(list((folder / "kv").glob("??/*.kv"))) < 12 and time.time() < deadline:
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    before = session.counts()
    answers, cached = session.ask(prompts)
    after = session.counts()
    for path in (folder / "kv").glob("??/*.kv"):
        path.unlink()
    session.fresh()
    clean, nothing = session.ask(prompts)
    return {
        "same": answers == clean,
        "cached": cached,
        "nothing": nothing,
        "loaded": after["loaded"] - before["loaded"],
        "refused": after["refused"] - before["refused"],
    }


def wrapped(folder: Path) -> dict[str, Any]:
    """The guard around vLLM's own connector that keeps prompts in files; one of them is damaged."""
    about = {"shared_storage_path": str(folder / "kv")}
    inner = {"kv_connector": "ExampleConnector", "kv_connector_extra_config": about}
    session = Session({"mode": "wrap", "inner": inner}, disable_hybrid_kv_cache_manager=True)
    found: dict[str, Any] = {}
    for name in ("first", "again", "damaged"):
        session.fresh()
        if name == "damaged":
            path = sorted((folder / "kv").rglob("*.safetensors"))[1]
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 64
            path.write_bytes(data)
        (answer,), (cached,) = session.ask([f"{PREFIX}{ENDS[0]}"])
        found[name] = {"answer": answer, "cached": cached, **session.counts()}
    return found


def plausible(folder: Path) -> dict[str, Any]:
    """A layer computes wrong values: once, and then always."""
    about = {"plausible": str(folder / "G"), "log": str(folder / "events"), "every": 4}
    session = Session(about, max_num_batched_tokens=96, max_num_seqs=8)  # in parts: the first is wrong
    found: dict[str, Any] = {}
    for name, times in (("clean", 0), ("once", 1), ("always", 10**6)):
        session.fresh()
        session.rpc("fault_writes", {"kind": "gaussian", "epsilon": 32.0}, 2, times)
        before = session.counts()
        (answer,), _ = session.ask([PREFIX])
        after = session.counts()
        counts = {key: after[key] - before[key] for key in after}
        lines = (folder / "events").read_text().splitlines() if (folder / "events").exists() else []
        events = [json.loads(line) for line in lines]
        (folder / "events").unlink(missing_ok=True)
        found[name] = {
            "answer": answer,
            "then": [e["then"] for e in events if e["event"] == "implausible"],
            **counts,
        }
    return found


def refused(folder: Path) -> dict[str, Any]:
    """What the guard says where it does not start."""
    said = {}
    from vllm import LLM
    from vllm.config import KVTransferConfig

    how: dict[str, Any] = {
        "kv_connector": "GuardConnector",
        "kv_connector_module_path": "cachemedicpp.engines.vllm",
        "kv_role": "kv_both",
    }
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        LLM(MODEL, enforce_eager=True, max_model_len=256, kv_transfer_config=KVTransferConfig(**how))
    except Exception as error:
        said["policy"] = f"{type(error).__name__}: {error}"
    return said


def audited(folder: Path) -> dict[str, Any]:
    """Blocks from a store, intact by every checksum, that are another text's, another place's, transposed or
    another model's; with the model as auditor, and without."""
    _apart("fill", folder / "theirs", HOMEOSTAT_TEST_MODEL=os.environ["HOMEOSTAT_TEST_OTHER"])
    return {name: _apart(f"with_{name}", folder) for name in ("audit", "none")}


def _apart(name: str, folder: Path, **settings: str) -> dict[str, Any]:
    """A scenario in a process of its own: vLLM keeps one engine in each."""
    command = [sys.executable, __file__, name, str(folder)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.partition("RESULT ")[2].splitlines()[0])
    return found


def with_audit(folder: Path) -> dict[str, Any]:
    return _audited(folder, MODEL)


def with_none(folder: Path) -> dict[str, Any]:
    return _audited(folder, "")


def fill(folder: Path) -> dict[str, Any]:
    session = Session({"mode": "store", "store": str(folder), "model_id": "m"})
    session.ask([PREFIX], 1)
    _store().flush()
    return {}


def _store() -> Any:
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    return get_kv_transfer_group().source.store


def _audited(folder: Path, audit: str) -> dict[str, Any]:
    from cachemedicpp.engines.store import BlockStore

    kept = folder / f"store-{bool(audit)}"
    session = Session({"mode": "store", "store": str(kept), "audit": audit, "model_id": "m"})
    prompts = [f"{PREFIX}{ENDS[0]}", f"Bees build combs of wax. {PREFIX}{ENDS[1]}"]
    clean = session.ask(prompts)[0]
    store = _store()
    store.flush()
    mine = sorted(store.folder.rglob("*.kv"), key=lambda path: path.stat().st_mtime_ns)
    layout, blocks = _layout(mine[0]), {}
    for path in mine:
        blocks[path.stem] = store.load(path.stem, layout)
    keys, theirs = list(blocks), BlockStore(str(folder / "theirs"), store._events)
    kinds = {
        "foreign": lambda i: blocks[keys[-1 - i]],
        "shifted": lambda i: blocks[keys[i + 1]],
        "transposed": lambda i: _sealed(blocks[keys[i]][0].transpose(1, 2).reshape(blocks[keys[i]][0].shape)),
        "stale": lambda i: theirs.load(keys[i], layout) if keys[i] in theirs else blocks[keys[i]],
        "none": lambda i: blocks[keys[i]],
    }
    found: dict[str, Any] = {}
    for kind, content in kinds.items():
        for key, (block, sums) in blocks.items():
            store.write(key, layout, block, sums)
        for i in (1, 3):
            store.write(keys[i], layout, *content(i))
        session.fresh()
        before = session.counts()
        answers, cached = session.ask(prompts)
        after = session.counts()
        about = {name: after[name] - before[name] for name in ("audited", "foreign", "loaded", "refused")}
        found[kind] = {**about, "same": answers == clean, "cached": cached}
    return found


def _layout(path: Path) -> str:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return str(file.metadata()["layout"])


def _sealed(block: Any) -> tuple[Any, Any]:
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    block = block.contiguous()
    return block, get_kv_transfer_group().watch.cache.sums_of(block)


def sleep(folder: Path) -> dict[str, Any]:
    """vLLM 0.33's hooks around a sleep: other memory at the same place is no damage, and is watched anew."""
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    session = Session({"every": 1, "idle_after": 0.05})
    clean = session.ask([PREFIX])[0]
    guard, cache = get_kv_transfer_group(), session.rpc("fault_cache")
    guard.unregister_kv_caches()
    for layer in cache.layers:
        layer.fill_(float("nan"))  # whatever was there
    time.sleep(0.5)
    quiet = session.counts()["bad"]
    for layer in cache.layers:
        layer.zero_()
    guard.restore_kv_caches()
    session.fresh()
    again = session.ask([PREFIX])[0]
    session.rpc("fault_inject", {"kind": "bit", "epsilon": 0.01}, session.prefix_blocks()[1:2], "s", [])
    after = session.ask([PREFIX])[0]
    config = KVTransferConfig(kv_connector="x", kv_role="kv_both", kv_connector_extra_config={})
    return {
        "same": clean == again == after,
        "quiet": quiet,
        "bad": session.counts()["bad"],
        "supported": type(guard).supports_sleep_mode(config),
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
