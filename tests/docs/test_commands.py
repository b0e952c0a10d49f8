"""Every command and every example in the documentation runs, as written, in one folder per page.

The blocks of a page run in order, as a reader would run them. Whatever a block needs beyond its text stands
above it as a rule (CONTRIBUTING.md explains them). A block that no rule covers is a failure.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.docs import exists
from tests.docs.givens import Givens
from tests.docs.markdown import ROOT, SHELL, Block, blocks, inline_commands, loose_commands, pages
from tests.docs.names import NAMES, generate
from tests.support.scripted import ScriptedUpstream

pytestmark = [pytest.mark.model, pytest.mark.xdist_group("docs")]

SECONDS = 120  # for one command
READY = re.compile(r"http://127\.0\.0\.1:\d+")
NO_SANDBOX = "this system cannot contain untrusted code"
SHOWN = ("text", "json", "latex", "")  # never run: output, formats


class Reader:
    """Runs commands in one folder after another, in forks of a process that has imported everything."""

    def __init__(self) -> None:
        environment = {**os.environ, "COLUMNS": "120", "HF_HUB_OFFLINE": "1"}
        environment |= {
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
        }
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        environment["PYTHONPATH"] = str(ROOT)
        self.environment = environment
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "tests.docs.warm"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def close(self) -> None:
        assert self._warm.stdin is not None
        self._warm.stdin.close()
        self._warm.wait(60)

    def begin(self, words: list[str], folder: Path) -> tuple[int, Path]:
        """Start a command; its process id, and the file its output goes to."""
        out = folder / f".output-{time.monotonic_ns()}"
        return self._ask({"run": words, "cwd": str(folder), "out": str(out), "seconds": SECONDS}), out

    def wait(self, pid: int) -> int:
        return self._ask({"wait": pid})

    def run(self, words: list[str], folder: Path, code: int = 0) -> None:
        began = time.monotonic()
        pid, out = self.begin(words, folder)
        found = self.wait(pid)
        print(f"{time.monotonic() - began:.1f} s  {shlex.join(words)}")
        if found == 2 and NO_SANDBOX in out.read_text():
            pytest.skip(f"{NO_SANDBOX} here")
        assert found == code, (
            f"`{shlex.join(words)}` ended with {found}, not {code}:\n{out.read_text()[-3000:]}"
        )

    def _ask(self, request: dict[str, object]) -> int:
        assert self._warm.stdin is not None
        self._warm.stdin.write(json.dumps(request) + "\n")
        self._warm.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._warm.stdout is not None
        return self._warm.stdout.readline().strip()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.close()


@pytest.fixture(scope="module")
def givens(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> Givens:
    return Givens(tmp_path_factory.mktemp("givens"), lambda words, folder: reader.run(words, folder))


class Page:
    """One page being followed, block by block, in one folder."""

    def __init__(self, reader: Reader, givens: Givens, folder: Path) -> None:
        self._reader, self._givens, self._folder = reader, givens, folder
        self._servers: list[tuple[int, str, str]] = []  # process, where the page says it is, where it is
        self._endpoints: list[tuple[ScriptedUpstream, str]] = []  # a fake model, where the page says it is

    def follow(self, block: Block) -> None:
        if "needs" in block.rules and not (ROOT / block.rules["needs"]).exists():
            warnings.warn(f"{block.where}: left out, {block.rules['needs']} is not here", stacklevel=1)
            return
        if "endpoint" in block.rules:
            self._endpoints.append((ScriptedUpstream(generate("")), block.rules["endpoint"]))
        given = [name for name in re.split(r",\s*", block.rules.get("given", "")) if name]
        for name in ["tiny", *given]:
            if name not in NAMES:
                self._givens.place(name, self._folder)
        if block.file is not None:
            self._write(block)
        elif block.language in SHELL:
            for command in block.commands():
                self._command(block, command)
        elif block.language == "python":
            self._python(block, [name for name in given if name in NAMES])
        elif block.language == "yaml":
            yaml.safe_load(block.text)
        else:
            assert block.language in SHOWN, f"{block.where}: how is a {block.language!r} block to be tested?"
            assert not block.names_commands, f"{block.where}: a block with commands is ```bash"

    def stop(self) -> None:
        for upstream, _ in self._endpoints:
            upstream.close()
        for pid, _, _ in self._servers:
            os.kill(pid, signal.SIGTERM)
            code = self._reader.wait(pid)
            assert code in (0, -signal.SIGTERM), f"a server ended with {code}"

    def _elsewhere(self) -> list[tuple[str, str]]:
        """Addresses as the page has them, and where what it means is."""
        fake = [(said, f"127.0.0.1:{upstream.port}") for upstream, said in self._endpoints]
        return [(said, real) for _, said, real in self._servers] + fake

    def _write(self, block: Block) -> None:
        assert block.file is not None
        path = self._folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def _command(self, block: Block, command: str) -> None:
        if "help" in block.rules:
            assert (problem := exists.problem(command)) is None, f"{block.where}: {problem}"
            return
        for said, real in self._elsewhere():
            command = command.replace(said, real)
        replaced = dict(pair.split("=", 1) for pair in block.rules.get("with", "").split())
        words = [replaced.get(word, word) for word in shlex.split(command)]
        words += shlex.split(block.rules.get("append", ""))
        if words[0] not in ("homeostat", "python"):
            assert words[0] not in ("make", "pip", "git", "docker"), f"{block.where}: say `test: help`"
            self._bash(block, shlex.join(words))
        elif "starts" in block.rules:
            self._start(block, words)
        else:
            self._reader.run(words, self._folder, int(block.rules.get("exit", "0")))

    def _bash(self, block: Block, command: str) -> None:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self._folder,
            env=self._reader.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block.where}: `{command}`:\n{done.stdout}{done.stderr}"

    def _start(self, block: Block, words: list[str]) -> None:
        """Start a server on a free port, see that it is ready, and leave it on for the rest of the page."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        pid, out = self._reader.begin([*words, "--port", str(port)], self._folder)
        self._servers.append((pid, block.rules["starts"] or "nowhere", f"127.0.0.1:{port}"))
        until = time.monotonic() + SECONDS / 2
        while not READY.search(said := out.read_text() if out.exists() else ""):
            assert time.monotonic() < until and not said.startswith("error:"), (
                f"{block.where}: {shlex.join(words)} is not ready:\n{out.read_text()}"
            )
            time.sleep(0.05)

    def _python(self, block: Block, names: list[str]) -> None:
        text = block.text
        for said, real in (pair.split("=", 1) for pair in block.rules.get("with", "").split()):
            text = text.replace(said, real)
        for said, real in self._elsewhere():
            text = text.replace(said, real)
        lines = [f"from tests.docs.names import {', '.join(names)}\n"] if names else []
        script = self._folder / f"example_{block.line}.py"
        script.write_text("".join([*lines, text]))
        self._reader.run(["python", script.name], self._folder)


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_a_reader_can_follow_the_page(page: str, reader: Reader, givens: Givens, tmp_path: Path) -> None:
    following = Page(reader, givens, tmp_path)
    try:
        for block in blocks(page):
            following.follow(block)
    finally:
        following.stop()


@pytest.mark.parametrize("page", pages())
def test_commands_stand_in_fenced_blocks_and_those_in_the_text_exist(page: str) -> None:
    assert loose_commands(page) == [], f"{page}: put these into a ```bash block"
    problems = [
        f"{page}:{n}: {found}" for n, text in inline_commands(page) if (found := exists.problem(text))
    ]
    assert problems == []
