"""Scorers and providers inside the real tools, offline: `make test-integrations` installs and runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from homeostat.core.errors import UserError
from skyt.integrations import anchor, promptfoo
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")
MAKE = "`make test-integrations` installs it and runs this"
FIRST = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
RENAMED = "def gcd(x, y):\n    while y != 0:\n        x, y = y, x % y\n    return x"
WRONG = "def gcd(a, b):\n    return a"


class _Answers(BaseHTTPRequestHandler):
    plan: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": self.plan.pop(0)}
        body = {
            "id": "x", "object": "chat.completion", "created": 0, "model": "any",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *given: Any) -> None:
        return


@contextmanager
def upstream() -> Iterator[tuple[str, list[str]]]:
    """A model's endpoint that answers by a plan."""
    plan: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Planned", (_Answers,), {"plan": plan}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", plan
    finally:
        server.shutdown()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_promptfoo_s_assertion_knows_the_contract_the_canon_and_the_same_text(tmp_path: Path) -> None:
    def passes(output: str, expect: str) -> bool:
        config = {"contract": "gcd", "store": str(tmp_path / "store"), "expect": expect}
        return bool(promptfoo.get_assert(output, {"config": config})["pass"])

    assert passes(FIRST, "same")
    assert [passes(RENAMED, expect) for expect in ("contract", "canon", "same")] == [True, True, False]
    assert [passes(WRONG, expect) for expect in ("contract", "canon", "same")] == [False, False, False]
    with pytest.raises(UserError, match="did you mean 'canon'"):
        passes(FIRST, "cannon")
    with pytest.raises(UserError, match="no contract"):
        promptfoo.get_assert(FIRST, {})


def test_inspect_counts_programs_and_scores_answers(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason=f"inspect-ai is not installed; {MAKE}")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    from skyt.integrations.inspect import anchored

    @solver
    def recorded() -> Solver:
        """Answers by epoch: Inspect's own mock model looks for a tokenizer on the network."""

        async def solve(state: TaskState, generate: Generate) -> TaskState:
            text = (FIRST, RENAMED, WRONG)[state.epoch - 1]
            state.output = ModelOutput.from_content("recorded", text)
            return state

        return solve

    task = Task(
        dataset=[Sample(input="gcd", metadata={"contract": "gcd"})],
        solver=recorded(),
        scorer=anchored(store=str(tmp_path / "store")),
        epochs=3,
    )
    logs = str(tmp_path / "logs")
    (log,) = eval(task, model="mockllm/model", log_dir=logs, display="none", max_samples=1)
    assert log.status == "success", log.error
    found = {}
    for part in log.results.scores:
        for name, one in part.metrics.items():
            found[part.name if name == "mean" else name] = one.value
    assert found["distinct_programs"] == 3
    assert found["compliant"] == pytest.approx(2 / 3)
    assert found["equals_canon"] == pytest.approx(1 / 3)
    assert found["equals_canon_after_repair"] == pytest.approx(2 / 3)


def test_litellm_s_provider_hands_on_the_canon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = pytest.importorskip("litellm", reason=f"litellm is not installed; {MAKE}")
    from skyt.integrations.litellm import register

    register()
    with upstream() as (url, plan):

        def ask(text: str) -> Any:
            plan.append(text)
            messages = [{"role": "user", "content": "gcd"}]
            ours = {"contract": "gcd", "store": str(tmp_path / "store")}
            given = litellm.completion("skyt/openai/any", messages, api_base=url, api_key="none", **ours)
            return given.choices[0].message

        first, second, third = map(ask, (FIRST, RENAMED, WRONG))
    assert second.content == first.content
    assert second.provider_specific_fields["skyt"]["evidence"] == "rewritten"
    assert third.provider_specific_fields["skyt"]["compliant"] == 0.0


def test_promptfoo_s_provider_hands_on_the_canon(tmp_path: Path) -> None:
    with upstream() as (url, plan):
        config = {"contract": "gcd", "store": str(tmp_path / "store"), "base_url": url, "model": "any"}
        plan += [FIRST, RENAMED]
        first, second = (promptfoo.call_api("gcd", {"config": config}, {}) for _ in range(2))
    assert second["output"] == first["output"]
    assert second["metadata"] == {"raw": RENAMED, "evidence": "rewritten"}
    assert second["tokenUsage"]["total"] == 3
    assert "error" in promptfoo.call_api(
        "gcd", {"config": {**config, "base_url": "http://127.0.0.1:9/v1"}}, {}
    )


def test_promptfoo_runs_the_assertion(tmp_path: Path) -> None:
    tool = shutil.which("promptfoo")
    if tool is None:
        pytest.skip(f"promptfoo is not installed; {MAKE}")
    (tmp_path / "answers.json").write_text(json.dumps([FIRST, RENAMED, WRONG]))
    config = {
        "prompts": ["{{code}}"],
        "providers": ["echo"],
        "tests": [
            {
                "vars": {"code": text},
                "assert": [
                    {
                        "type": "python",
                        "value": "file://skyt_promptfoo.py",
                        "config": {"contract": "gcd", "store": str(tmp_path / "store"), "expect": "canon"},
                    }
                ],
            }
            for text in (FIRST, RENAMED, WRONG)
        ],
    }
    (tmp_path / "skyt_promptfoo.py").write_text("from skyt.integrations.promptfoo import get_assert\n")
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
    off = ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE", "PROMPTFOO_DISABLE_REMOTE_GENERATION")
    env = {**os.environ, **dict.fromkeys(off, "1"), "PROMPTFOO_PYTHON": sys.executable,
           "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home")}  # fmt: skip
    command = [tool, "eval", "-c", "promptfooconfig.json", "-o", "out.json", "--no-cache", "-j", "1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert (tmp_path / "out.json").exists(), done.stdout + done.stderr
    results = json.loads((tmp_path / "out.json").read_text())["results"]["results"]
    assert [row["success"] for row in results] == [True, True, False], done.stdout
    assert "rejected by the oracle" in results[2]["gradingResult"]["reason"]


def test_an_anchor_asks_no_model() -> None:
    with pytest.raises(UserError, match="takes answers"):
        anchor("gcd")()
