"""The pool returns results as data, keeps programs apart, and refuses where it cannot contain them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.results import decoded

from homeostat.core.errors import UserError
from skyt.contracts import codec
from skyt.contracts.contract import EntryPoint, load_contract
from skyt.contracts.domain import Call, Operation, generate_inputs
from skyt.sandbox import CallResult, Job, Limits, SandboxPool, capability, encode_calls, expected, same
from skyt.sandbox.reader import Reader

F = EntryPoint(kind="function", name="f")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=Limits(call_seconds=0.3, cpu_seconds=1, wall_seconds=3)) as pool:
        yield pool


def _run(pool: SandboxPool, code: str, *args: object) -> CallResult:
    (result,) = pool.run(code, F, [Call(args)])
    return result


def test_this_system_contains_and_says_how() -> None:
    found = capability()
    assert found.contained, found.missing
    assert "namespaces" in found.method


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**200,
        "é\0\n\t",
        "\ud800",
        1.5,
        float("inf"),
        (1, [2, {"k": (3,)}]),
        {1, 2},
        b"\xff",
        1j,
        [],
    ],
)
def test_values_go_in_and_come_back_exactly(pool: SandboxPool, value: object) -> None:
    result = _run(pool, "def f(x):\n    return x", value)
    assert repr(decoded(result)) == repr(value)
    assert same(result, expected(value))


def test_nan_comes_back_as_nan(pool: SandboxPool) -> None:
    assert repr(decoded(_run(pool, "def f(x):\n    return x", float("nan")))) == "nan"


def test_look_alikes_are_not_the_same() -> None:
    assert not same(expected(1), expected(True))
    assert not same(expected(1), expected(1.0))
    assert not same(expected((1,)), expected([1]))
    assert not same(expected(object()), expected(object()))
    assert not same(CallResult("timeout"), CallResult("timeout"))
    assert same(CallResult("raise", "ValueError"), CallResult("raise", "ValueError"))


def test_changed_arguments_are_reported(pool: SandboxPool) -> None:
    result = _run(pool, "def f(x):\n    x.append(3)\n    return x", [1])
    assert result == CallResult("value", "[1,3]", "[[1,3]]")
    assert _run(pool, "def f(x):\n    return x + [3]", [1]) == CallResult("value", "[1,3]")


def test_exceptions_carry_their_class_name_and_the_next_call_goes_on(pool: SandboxPool) -> None:
    code = "def f(x):\n    return 1 // x"
    results = pool.run(code, F, [Call((1,)), Call((0,)), Call((1,))])
    assert [r.show() for r in results] == ["1", "raises ZeroDivisionError", "1"]


def test_class_operations_give_one_outcome_each(pool: SandboxPool) -> None:
    entry = load_contract("lru_cache").entry_point
    code = """
class LRUCache:
    def __init__(self, n):
        self.n = n
    def get(self, k):
        return k // self.n
    def put(self, k, v):
        pass
"""
    call = Call((0,), {}, (Operation("get", (4,)), Operation("put", (1, 2))))
    (result,) = pool.run(code, entry, [call])
    assert result.text == '[{"x":"ZeroDivisionError"},null]'


def test_programs_share_nothing(pool: SandboxPool) -> None:
    assert decoded(_run(pool, "import math\nmath.leak = 1\ndef f():\n    return 1")) == 1
    for _ in range(4):
        assert decoded(_run(pool, "import math\ndef f():\n    return hasattr(math, 'leak')")) is False


def test_demo_blocks_are_not_run(pool: SandboxPool) -> None:
    assert (
        decoded(_run(pool, "def f():\n    return 1\nif __name__ == '__main__':\n    raise SystemExit")) == 1
    )


def test_results_do_not_depend_on_chance(pool: SandboxPool) -> None:
    code = "import random\ndef f():\n    return [random.random(), hash('x'), [*{'a', 'b', 'c', 'd'}]]"
    first = _run(pool, code)
    with SandboxPool(workers=1) as other:
        assert _run(other, code) == first


def test_results_do_not_depend_on_workers_or_order(pool: SandboxPool) -> None:
    contract = load_contract("gcd")
    calls = encode_calls(generate_inputs(contract, 50, 0))
    jobs = [Job(f"def gcd(a, b):\n    return a % (b + {k})", contract.entry_point, calls) for k in range(20)]
    together = pool.run_many(jobs)
    assert together == [pool.run_job(job) for job in jobs]
    assert together[::-1] == pool.run_many(jobs[::-1])


def test_time_is_up_for_one_call_and_the_rest_is_not_run(pool: SandboxPool) -> None:
    code = "def f(x):\n    while x:\n        pass\n    return x"
    results = pool.run(code, F, [Call((0,)), Call((1,)), Call((0,))])
    assert [r.kind for r in results] == ["value", "timeout", "unrun"]


def test_results_before_a_crash_are_kept(pool: SandboxPool) -> None:
    code = "import os\ndef f(x):\n    if x:\n        os._exit(9)\n    return x"
    results = pool.run(code, F, [Call((0,)), Call((1,)), Call((0,))])
    assert [r.kind for r in results] == ["value", "crash", "unrun"]
    assert results[1].text == "exit code 9"


def test_request_larger_than_a_pipe_is_sent_whole(pool: SandboxPool) -> None:
    big = "x" * 3_000_000
    assert decoded(_run(pool, "def f(x):\n    return len(x)", big)) == len(big)


def test_pool_serves_many_threads(pool: SandboxPool) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda k=k: found.append(decoded(_run(pool, f"def f():\n    return {k}"))))
        for k in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(12))  # type: ignore[type-var]


def test_jail_that_is_killed_from_outside_is_replaced() -> None:
    with SandboxPool(workers=1) as pool:
        assert decoded(_run(pool, "def f():\n    return 1")) == 1
        os.kill(pool._jails[0]._process.pid, signal.SIGKILL)
        assert decoded(_run(pool, "def f():\n    return 1")) == 1


def test_interrupted_exchange_leaves_nothing_for_the_next_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with SandboxPool(workers=1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr("skyt.sandbox.keeper.Jail._drain", interrupt)
            with pytest.raises(KeyboardInterrupt):
                _run(pool, "def f():\n    return 'old'")
        assert decoded(_run(pool, "def f():\n    return 'new'")) == "new"


def test_jail_dies_with_its_owner(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom skyt.sandbox import SandboxPool\npool = SandboxPool(workers=1)\n"
        "print(pool._jails[0]._process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    jail = int(done.stdout)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{jail}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{jail}").exists()


def test_system_that_cannot_contain_is_refused_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine type without a system-call filter of ours stands in for a system without walls.
    monkeypatch.setattr("skyt.sandbox.keeper.JAIL", _jail_without_walls(tmp_path))
    with pytest.raises(
        UserError, match=r"cannot contain untrusted code \(missing: Linux.*--i-accept"
    ) as caught:
        SandboxPool(workers=1)
    assert "\n" not in str(caught.value)
    assert not capability().contained
    with SandboxPool(workers=1, allow_uncontained=True) as pool:
        assert not pool.contained
        assert decoded(_run(pool, "def f():\n    return 1")) == 1
        slow = Limits(call_seconds=0.2, cpu_seconds=0.5, wall_seconds=1)
        (result,) = pool.run("def f():\n    while True:\n        pass", F, [Call()], slow)
        assert result.kind == "timeout"


def _jail_without_walls(folder: Path) -> Path:
    import skyt.sandbox

    sandbox = Path(skyt.sandbox.__file__).parent
    (folder / "sandbox").mkdir()
    for name in ("jail.py", "harness.py", "settle.py", "enforce.py", "forms.py", "lockdown.py"):
        (folder / "sandbox" / name).write_text((sandbox / name).read_text())
    (folder / "contracts").mkdir()
    (folder / "contracts" / "codec.py").write_text((sandbox.parent / "contracts" / "codec.py").read_text())
    lockdown = folder / "sandbox" / "lockdown.py"
    lockdown.write_text(lockdown.read_text() + "\n\ndef available():\n    return False\n")
    return folder / "sandbox" / "jail.py"


def test_no_workers_is_a_mistake() -> None:
    with pytest.raises(UserError, match="workers = 0"):
        SandboxPool(workers=0)


@pytest.mark.parametrize(
    ("output", "kinds"),
    [
        (b"", ["timeout"] * 2),
        (b"R\n", ["timeout"] * 2),
        (b"R\nL\tnull\n", ["timeout", "unrun"]),
        (b"R\nL\tnull\nv\t1\t\n", ["value", "timeout"]),
        (b"R\nL\tnull\nv\t1\t\nv\t2\t\nv\t3\t\n", ["value", "value"]),
        (b"R\nL\tnull\nv\t1\n", ["crash", "unrun"]),
        (b"R\nL\tnull\n\xff\n", ["crash", "unrun"]),
        (b'R\nL\t"SyntaxError"\n', ["unloaded"] * 2),
        (b"R\nL\t{{{\n", ["crash"] * 2),
        (b"R\nL\t" + b"[" * 100_000 + b"\n", ["crash"] * 2),
        (b"R\nhello\n", ["crash"] * 2),
    ],
)
def test_output_that_is_short_or_malformed_is_read_as_such(output: bytes, kinds: list[str]) -> None:
    reader = Reader(2, line_bytes=1 << 20, output_bytes=1 << 20)
    reader.feed(output)
    assert [r.kind for r in reader.results(CallResult("timeout"))] == kinds


def test_time_asleep_counts_as_computing(pool: SandboxPool) -> None:
    began = time.monotonic()
    limits = Limits(call_seconds=1, cpu_seconds=1, wall_seconds=60)
    (result,) = pool.run("import time\ndef f():\n    time.sleep(60)", F, [Call()], limits)
    assert result.kind == "timeout" and time.monotonic() - began < 30


def test_a_time_limit_cannot_be_caught_and_a_stack_is_as_deep_as_a_users(pool: SandboxPool) -> None:
    catching = "def f():\n  try:\n    while True:\n      pass\n  except BaseException:\n    return 1"
    assert _run(pool, catching).kind == "timeout"
    deep = (
        "def g():\n  try:\n    return g() + 1\n  except RecursionError:\n    return 0\ndef f():\n  return g()"
    )
    alone = subprocess.run(
        [sys.executable, "-c", deep + "\nprint(f())"], capture_output=True, text=True, check=True
    )
    assert abs(decoded(_run(pool, deep)) - int(alone.stdout)) <= 2


def test_a_job_apart_has_its_name_and_another_hash_seed(pool: SandboxPool) -> None:
    code = "def f():\n    return __name__, hash('probe')"
    apart = Job(code, F, encode_calls([Call()]), module="__main__", apart=True)
    name, other = decoded(pool.run_job(apart)[0])
    assert name == "__main__" and other != decoded(_run(pool, code))[1]


@pytest.mark.parametrize(
    ("code", "call", "after"),
    [
        ("def f(p):\n    p[0].append(1)", Call((([], 2),)), [([1], 2)]),
        ("def f(p):\n    p[0][0].add(1)", Call(((({5},), 2),)), [(({1, 5},), 2)]),
        ("def f(a, *, b):\n    b.append(a)", Call((1,), {"b": []}), [1, [1]]),
    ],
)
def test_changes_inside_tuples_and_of_keyword_arguments_are_reported(
    pool: SandboxPool, code: str, call: Call, after: list[object]
) -> None:
    (result,) = pool.run(code, F, [call])
    assert codec.loads(result.args_after) == after


@pytest.mark.parametrize(
    ("raised", "name"),
    [
        ("ValueError", "ValueError"),
        ("type('ValueError', (Exception,), {})", "ValueError of the program (Exception)"),
        ("type('Own', (ValueError,), {})", "Own (ValueError)"),
        ("type('Own', (Exception,), {})", "Own (Exception)"),
    ],
)
def test_an_exception_of_the_programs_own_is_no_builtin_one(
    pool: SandboxPool, raised: str, name: str
) -> None:
    assert _run(pool, f"def f():\n    raise {raised}").text == name
