"""Programs whose results attack whoever reads them, each posing as `gcd(a, b)`.

They write to the result pipe themselves, as a program can. `say` writes bytes there; `attack` is what a
program does on its fifteenth call, after right answers to all listed cases, so that properties get to see it.
"""

from __future__ import annotations

_FRAME = """
import os
import time
def say(data):
    while data:
        data = data[os.write(3, data[:1 << 16]):]
    return 0
def attack():
{attack}
calls = 0
def gcd(a, b):
    global calls
    calls += 1
    if calls == 15:
        attack()
    while b:
        a, b = b, a % b
    return a
"""

_COLLIDING = """
    numbers, size, k, prime = [], 0, 0, 2 ** 61 - 1
    while size < {size}:
        k += 1
        number = str(k * prime) if k < 4 else '{{"i":"%s"}}' % hex(k * prime)
        numbers.append({item})
        size += len(numbers[-1]) + 1
    say(('v\\t{{"{tag}":[' + ','.join(numbers) + ']}}\\t\\n').encode())
"""


def _set(size: int) -> str:
    return _COLLIDING.format(size=size, item="number", tag="s")


def _dict(size: int) -> str:
    return _COLLIDING.format(size=size, item="'[%s,0]' % number", tag="d")


_ATTACKS = {
    "set_of_colliding_integers": _set(1_000_000),
    "set_of_colliding_integers_4_MiB": _set(4 << 20),
    "dict_with_colliding_keys": _dict(1_000_000),
    "many_sets_of_colliding_integers": _set(100_000) * 9,
    "newlines": "    for _ in range(60):\n        say(b'\\n' * (1 << 20))",
    "no_newline": "    for _ in range(60):\n        say(b'1' * (1 << 20))",
    "one_value_of_60_MiB": "    say(b'v\\t\"')\n    for _ in range(60):\n        say(b'x' * (1 << 20))",
    "empty_values": "    for _ in range(60):\n        say(b'v\\t\\t\\n' * (1 << 18))",
    "right_answers_without_end": "    for _ in range(60):\n        say(b'v\\t1\\t\\n' * (1 << 17))",
    "values_of_1_MiB": "    for _ in range(60):\n        say(b'v\\t\"' + b'x' * 1_000_000 + b'\"\\t\\n')",
    "tabs": "    say(b'v' + b'\\t' * 1_000_000 + b'\\n')",
    "nested_lists": "    say(b'v\\t' + b'[' * 500_000 + b']' * 500_000 + b'\\t\\n')",
    "nested_tags": "    say(b'v\\t' + b'{\"t\":[' * 80_000 + b']}' * 80_000 + b'\\t\\n')",
    "nested_texts": '    say(b\'v\\t{"e":"{\\\\"e\\\\":\\\\"1\\\\"}"}\\t\\n\')',
    "many_empty_lists": "    say(b'v\\t[' + b'[],' * 300_000 + b'[]]\\t\\n')",
    "digits": "    say(b'v\\t' + b'7' * 1_000_000 + b'\\t\\n')",
    "hexadecimal_digits": "    say(b'v\\t{\"i\":\"0x' + b'f' * 1_000_000 + b'\"}\\t\\n')",
    "float_digits": "    say(b'v\\t{\"f\":\"0x1.' + b'f' * 1_000_000 + b'p+1\"}\\t\\n')",
    "bare_floats": "    say(b'v\\t[NaN,Infinity,-Infinity,1e400,1.5]\\t\\n')",
    "nan_of_another_form": '    say(b\'v\\t{"f":"-NaN"}\\t\\n\')',
    "lone_surrogates": "    say(b'v\\t\"' + b'\\\\ud800' * 150_000 + b'\"\\t\\n')",
    "bytes_beyond_ascii": "    say(b'v\\t\"\\xff\\xfe\\xed\\xa0\\x80\"\\t\\n')",
    "nul_bytes": "    say(b'\\0' * 1_000_000 + b'\\n')",
    "unfinished_escape": "    say(b'v\\t\"' + b'\\\\' * 999_999 + b'\\t\\n')",
    "carriage_returns": "    say(b'v\\t1\\t\\r\\n')",
    "long_exception_name": "    say(b'x\\t\"' + b'E' * 1_000_000 + b'\"\\n')",
    "exception_that_is_no_name": "    say(b'x\\t' + b'[' * 900_000 + b'\\n')",
    "exception_name_of_digits": "    say(b'x\\t' + b'9' * 900_000 + b'\\n')",
    "long_reason": "    say(b'f\\t\"' + b'\\\\u0041' * 150_000 + b'\"\\n')",
    "time_is_up_and_more": "    say(b't\\n' + b'v\\t1\\t\\n' * 1000)",
    "loaded_again": "    say(b'L\\tnull\\nR\\nL\\tnull\\n')",
    "arguments_changed": "    say(b'v\\t1\\t[' + b'{\"s\":[0,0]},' * 70_000 + b'0]\\n')",
    "opaque_look_alike": '    say(b\'v\\t{"o":"6"}\\t\\n\')',
    "opaque_with_a_long_name": "    say(b'v\\t{\"o\":\"' + b'x' * 1_000_000 + b'\"}\\t\\n')",
    "trickle": "    for _ in range(10 ** 6):\n        say(b'1')\n        time.sleep(0.05)",
    "trickle_of_lines": "    for _ in range(10 ** 6):\n        say(b'v\\t1\\t\\n')\n        time.sleep(0.05)",
    "ends_in_the_middle_of_a_line": "    say(b'v\\t[1,2,3')",
    "closes_the_pipe": "    os.close(3)",
    "report_of_the_warden": '    say(b\'{"exit": 0, "in_time": true, "cpu": 0, "seconds": 0}\\n\')',
}

PROGRAMS = {name: _FRAME.format(attack=attack) for name, attack in _ATTACKS.items()} | {
    "huge_value_at_loading": "import os\nwhile True:\n    os.write(3, b'\\n' * 65536)\n",
    "long_reason_at_loading": "import os\nos.write(3, b'L\\t\"' + b'x' * 60_000)\nos._exit(0)\n",
    "number_at_loading": "import os\nos.write(3, b'L\\t' + b'9' * 60_000 + b'\\n')\nos._exit(0)\n",
    "returns_a_set_of_colliding_integers": (
        "def gcd(a, b):\n    return {k * (2 ** 61 - 1) for k in range(1, 20_000)}\n"
    ),
    "returns_nested_tuples": (
        "def gcd(a, b):\n    x = ()\n    for _ in range(10 ** 5):\n        x = (x,)\n    return x\n"
    ),
    "returns_an_integer_of_a_million_bits": "def gcd(a, b):\n    return 1 << 999_999\n",
    "raises_a_class_with_a_long_name": ("def gcd(a, b):\n    raise type('E' * 10 ** 6, (Exception,), {})\n"),
}
