"""Programs from a grammar that is rich in what rules look at.

Expressions have kinds, so that most programs run; enough of them still raise: that is part of what is
compared. Loops are short by construction. The same random source gives the same program.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.fuzzing.expressions import Expressions
from benchmarks.fuzzing.subjects import Subject, from_facts
from benchmarks.fuzzing.vocabulary import (
    EXCEPTIONS,
    HOLDING,
    IMPORTS,
    LOADED,
    MUTATIONS,
    PLAIN_PRELUDES,
    PRELUDES,
    SIGNATURES,
    SPECIAL,
)

from skyt.text.parsing import why_not_compiled


def program(rng: random.Random, title: str = "grammar") -> Subject:
    facts = rng.choice(list(SIGNATURES))
    while why_not_compiled(code := Grammar(rng, SIGNATURES[facts]).module()):
        pass  # quotes inside an f-string, now and then
    return from_facts(title, facts, code)


class Grammar(Expressions):
    """Statements. `scope` maps the names that are bound here to their kinds."""

    def __init__(self, rng: random.Random, parameters: dict[str, str]) -> None:
        super().__init__(rng)
        self.parameters = parameters
        self.loop = 0  # loops around the present place
        self.in_try = False
        self.names = 0
        self.room = rng.choice((4, 8, 14))  # statements left to make

    def module(self) -> str:
        self.scope = dict(self.parameters)
        preludes = PLAIN_PRELUDES if self.plain else PRELUDES
        prelude = self.rng.choice(preludes) if self.rng.random() < 0.5 else ""
        prelude = self.rng.choice(self.rng.choice((HOLDING, SPECIAL))) if self.rng.random() < 0.2 else prelude
        self.helper = bool(prelude)
        held = ["    " + line for line in self.hold()] if prelude in HOLDING else []
        body = [*held, *self.block(1, 5), *self.ending()]
        if held:
            result = body[-1].strip().removeprefix("return ")
            body[-1] = f"    return ({held[0].split()[0]}, {result})"
        if "LOG" in prelude and self.rng.random() < 0.7:
            body.append("    return LOG[-5:]")
        if self.rng.random() < 0.08:
            prelude, body = self.importing(prelude, body)
        code = prelude + "\n".join([f"def f({', '.join(self.parameters)}):", *body]) + "\n"
        return code + (self.loading() if self.rng.random() < 0.08 else "")

    def importing(self, prelude: str, body: list[str]) -> tuple[str, list[str]]:
        """An import on top, in the function or in another one, and a use of it, perhaps on some ways only."""
        self.scope = dict(self.parameters)
        (line, use), where = self.rng.choice(IMPORTS), self.rng.random()
        uses = [f"    if {self.expression('test', 1)}:", f"        return {self.filled(use, 1)}", *body]
        if where < 0.3:
            return f"{line}\n{prelude}", uses
        if where < 0.7:
            return prelude, [f"    {line}", *uses]
        called = [f"    if {self.expression('test', 1)}:", "        return imported()", *body]
        return f"{prelude}def imported():\n    {line}\n    return 1\n", called

    def loading(self) -> str:
        """What runs behind the function while the module loads."""
        name = "t" if self.helper and self.rng.random() < 0.5 else "f"
        new = "lambda *given: len(given)" if name == "f" else self.rng.choice(["abs", "str", "lambda v: v"])
        return self.rng.choice(LOADED).replace("<g>", name).replace("<new>", new)

    def block(self, indent: int, most: int) -> list[str]:
        """Some statements at this depth. Names bound in them are forgotten afterwards, mostly."""
        before = dict(self.scope)
        lines: list[str] = []
        for _ in range(self.rng.randint(1, most)):
            self.room -= 1
            lines += self.statement(indent)
        if indent > 1 and self.rng.random() < 0.9:
            self.scope = before
        return lines or ["    " * indent + "pass"]

    def ending(self) -> list[str]:
        kind = self.rng.choice(["int", "bool", "str", "ints", "any", "any"])
        if kind == "any":
            names = self.rng.sample(sorted(self.scope), min(len(self.scope), self.rng.randint(1, 3)))
            return ["    return " + (names[0] if len(names) == 1 else f"({', '.join(names)})")]
        return [f"    return {self.expression(kind, 2)}"]

    def statement(self, indent: int) -> list[str]:
        plain: list[Callable[[], list[str]]] = [
            self.assign, self.assign, self.augment, self.mutate, self.alias, self.guard, self.swap,
        ]  # fmt: skip
        if self.loop:
            plain += [self.jump, self.jump, self.mutate]
        if self.room <= 0 or indent > 4:
            made = self.rng.choice(plain)()
            return ["    " * indent + line for line in made]
        compound = [
            self.if_, self.if_, self.for_, self.for_, self.while_, self.try_, self.try_, self.nested,
            self.match_, self.collect, self.search, self.restart,
        ]  # fmt: skip
        if self.plain:
            compound = [self.if_, self.if_, self.for_, self.for_, self.while_, self.collect, self.search]
            compound.append(self.restart)
        if self.rng.random() < 0.45:
            return self.rng.choice(compound)(indent)
        return ["    " * indent + line for line in self.rng.choice(plain)()]

    def fresh(self, kind: str) -> str:
        """A new name, or one in use: programs that use a name twice are the harder ones."""
        same = [n for n, k in self.scope.items() if k == kind]
        if same and self.rng.random() < 0.35:
            return self.rng.choice(same)
        self.names += 1
        return f"{self.rng.choice('uvwxyz')}{self.names}"

    def assign(self) -> list[str]:
        kinds = ["int", "int", "bool", "str", "ints", "strs", "dict", "set"]
        kind = self.rng.choice(kinds if self.plain else [*kinds, "iter"])
        value = self.expression(kind, 2)
        name = self.fresh(kind)
        self.scope[name] = kind
        if self.rng.random() < 0.1:
            other = self.fresh(kind)
            self.scope[other] = kind
            return [f"{name} = {other} = {value}"]
        return [f"{name} = {value}"]

    def augment(self) -> list[str]:
        options = [(n, k) for n, k in self.scope.items() if k in ("int", "str", "ints", "set", "bool")]
        if not options:
            return self.assign()
        name, kind = self.rng.choice(options)
        if kind == "int":
            sign = self.rng.choice(["+", "+", "-", "*", "//", "%"])
            return [f"{name} {sign}= {self.expression('int', 1)}"]
        signs = {"str": "+", "ints": "+", "set": "|", "bool": self.rng.choice("|&")}
        return [f"{name} {signs[kind]}= {self.expression(kind, 1)}"]

    def alias(self) -> list[str]:
        kinds = [k for k in ("ints", "dict", "set", "strs", "iter") if k in self.scope.values()]
        if not kinds:
            return self.assign()
        kind = self.rng.choice(kinds)
        source = self.name(kind)
        name = self.fresh(kind)
        self.scope[name] = kind
        return [f"{name} = {source}"]

    def swap(self) -> list[str]:
        names = [n for n, k in self.scope.items() if k == "int"]
        if len(names) < 2:
            return self.assign()
        a, b = self.rng.sample(names, 2)
        right = self.rng.choice([f"{b}, {a}", f"{b}, {a} + {b}", f"{a} + 1, {a}", f"{b}, t({a})"])
        return [f"{a}, {b} = {right if self.helper else right.replace('t(', '(')}"]

    def mutate(self) -> list[str]:
        if self.helper and self.rng.random() < 0.2:
            return self.hold() or self.assign()
        if not {"ints", "dict", "set", "strs"} & set(self.scope.values()):
            return self.assign()
        return [self.filled(self.pick(MUTATIONS), 1)]

    def hold(self) -> list[str]:
        """The length of a list, which a helper may change then."""
        if "ints" not in self.scope.values():
            return []
        whole, size = self.name("ints"), self.fresh("int")
        self.scope[size] = "int"
        return [f"{size} = len({whole})", f"t({whole})"]

    def guard(self) -> list[str]:
        result = self.expression(self.rng.choice(["int", "bool", "str", "ints"]), 1)
        return [f"if {self.expression('test', 2)}:", f"    return {result}"]

    def jump(self) -> list[str]:
        leave = self.rng.choice(["break", "continue", "break", f"return {self.expression('int', 1)}"])
        if self.rng.random() < 0.2:
            return [leave]
        return [f"if {self.expression('test', 1)}:", f"    {leave}"]

    def if_(self, indent: int) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}if {self.expression('test', 2)}:", *self.block(indent + 1, 2)]
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            lines += [f"{pad}elif {self.expression('test', 1)}:", *self.block(indent + 1, 2)]
        if self.rng.random() < 0.5:
            lines += [f"{pad}else:", *self.block(indent + 1, 2)]
        return lines

    def for_(self, indent: int) -> list[str]:
        pad = "    " * indent
        target, source, bound = self.iteration()
        before = dict(self.scope)
        self.scope.update(bound)
        self.loop += 1
        lines = [f"{pad}for {target} in {source}:", *self.block(indent + 1, 3)]
        self.loop -= 1
        if self.rng.random() < 0.15:
            lines += [f"{pad}else:", *self.block(indent + 1, 1)]
        if self.rng.random() < 0.8:
            self.scope = before
        return lines

    def while_(self, indent: int) -> list[str]:
        pad, i = "    " * indent, self.fresh("int")
        self.scope[i] = "int"
        limit = self.rng.choice(["3", f"min(4, abs({self.expression('int', 1)}))"])
        if "ints" in self.scope.values() and self.rng.random() < 0.4:
            limit = f"min(9, len({self.name('ints')}))"
        self.loop += 1
        body = self.block(indent + 1, 3)
        self.loop -= 1
        step = f"{pad}    {i} += 1"
        if self.rng.random() < 0.3:
            stop = [f"{pad}    if {i} >= {limit}:", f"{pad}        break"]
            return [f"{pad}{i} = 0", f"{pad}while True:", step, *stop, *body]
        where = [step, *body] if any("continue" in line for line in body) else [*body, step]
        return [f"{pad}{i} = 0", f"{pad}while {i} < {limit}:", *where]

    def try_(self, indent: int) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}try:", *self.block(indent + 1, 3)]
        if self.rng.random() < 0.6:
            lines.append(f"{pad}    {self.rng.choice([*self.scope])} = {self.expression('raising', 1)}")
        if self.rng.random() < 0.25:
            lines.append(f"{pad}    return {self.expression('raising', 1)}")
        final = self.rng.random() < 0.3
        if not final or self.rng.random() < 0.6:
            for _ in range(self.rng.choice((1, 1, 2))):
                caught = self.rng.choice(
                    [*EXCEPTIONS, "Exception", "(ValueError, IndexError)", "LookupError"]
                )
                named = self.rng.choice(["", "", " as e"])
                lines += [f"{pad}except {caught}{named}:", *self.block(indent + 1, 2)]
            if self.rng.random() < 0.2:
                lines += [f"{pad}else:", *self.block(indent + 1, 1)]
        if final:
            lines += [f"{pad}finally:", *self.block(indent + 1, 1)]
        return lines

    def nested(self, indent: int) -> list[str]:
        """A function inside: it closes over names, changes them, yields, or has a default that is shared."""
        pad, rng = "    " * indent, self.rng
        self.names += 1
        g, outer = f"g{self.names}", self.name("int") if "int" in self.scope.values() else "0"
        argument = self.expression("int", 1)
        result = self.fresh("int")
        shapes = [
            [f"def {g}(p):", f"    return p + {outer}"],
            [f"def {g}(p, q={outer}):", "    return p * 2 + q"],
            [f"def {g}(p, acc=[]):", "    acc.append(p)", "    return len(acc) + p"],
            [f"def {g}(p):", "    if p <= 0:", "        return 0", f"    return 1 + {g}(min(p, 6) - 1)"],
            [f"{g} = lambda p: p + {outer}"],
            [f"def {g}(p):", "    for q in range(min(3, abs(p))):", "        yield q"],
        ]
        if outer.isidentifier():
            shapes.append(
                [f"def {g}(p):", f"    nonlocal {outer}", f"    {outer} += p", f"    return {outer}"]
            )
        shape = rng.choice(shapes)
        nonlocal_ = any("nonlocal" in line for line in shape)
        if nonlocal_ and outer in self.parameters and indent == 0:
            return []
        call = f"{g}({argument})"
        if any("yield" in line for line in shape):
            call = rng.choice(
                [f"sum({call})", f"len(list({call}))", f"next({call})", f"max({call}, default=7)"]
            )
        uses = [f"{result} = {call}"]
        if rng.random() < 0.5:
            uses = [
                f"{result} = {rng.choice([f'{call} + {call}', f'{call} - {outer}', f'{outer} - {call}'])}"
            ]
        if rng.random() < 0.3 and outer.isidentifier():
            uses.insert(0, f"{outer} = {self.expression('int', 1)}")
        self.scope[result] = "int"
        return [pad + line for line in [*shape, *uses]]

    def match_(self, indent: int) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}match {self.expression('int', 1)}:"]
        for case in self.rng.sample(["0", "1 | 2", "3 if " + self.expression("test", 1), "-1"], 2):
            lines += [f"{pad}    case {case}:", *self.block(indent + 2, 1)]
        return [*lines, f"{pad}    case _:", *self.block(indent + 2, 1)]

    def collect(self, indent: int) -> list[str]:
        """A container filled in a loop, the commonest thing that rules turn into something else."""
        pad, rng = "    " * indent, self.rng
        target, source, bound = self.iteration()
        name, kind = self.fresh("int"), rng.choice(["ints", "int", "dict", "str", "set", "strs"])
        before = dict(self.scope)
        self.scope.update(bound)
        starts = {"int": rng.choice("01"), "dict": "{}", "str": "''", "set": "set()"}
        value, key = self.expression("int", 1), self.expression("str", 1)
        steps = {
            "ints": [f"{name}.append({value})", f"{name} += [{value}]", f"{name} = {name} + [{value}]"],
            "int": [f"{name} += {value}", f"{name} = {value} + {name}", f"{name} = max({name}, {value})"],
            "dict": [
                f"{name}[{key}] = {name}.get({key}, 0) + {value}",
                f"{name}.setdefault({key}, []).append({value})",
            ],
            "str": [f"{name} += {key}", f"{name} = {key} + {name}"],
            "set": [f"{name}.add({value})"],
            "strs": [f"{name}.append({key})"],
        }
        step = [f"    {rng.choice(steps[kind])}"]
        if rng.random() < 0.5:
            step = [f"    if {self.expression('test', 1)}:", f"    {step[0]}"]
        if rng.random() < 0.2:
            step += [f"    if {self.expression('test', 1)}:", "        break"]
        self.scope = {**before, name: kind}
        start = f"{name} = {starts.get(kind, '[]')}"
        return [pad + line for line in [start, f"for {target} in {source}:", *step]]

    def restart(self, indent: int) -> list[str]:
        """A loop in which something starts anew, a way out, and what fills it; it is read afterwards."""
        pad, rng = "    " * indent, self.rng
        self.names += 1
        before, i = dict(self.scope), f"k{self.names}"
        for_ = rng.random() < 0.5
        test = rng.choice([f"{i} > 1", f"{i} == 1", self.expression("test", 1)] if for_ else [f"{i} > 1"])
        leave = [
            f"if {test}:",
            f"    {rng.choice(['break', 'break', 'continue', 'return 3'] if for_ else ['break'])}",
        ]
        filling = self.collect(0)
        name = filling[0].partition(" =")[0]
        kind = self.scope[name]
        started = [f"{name} = {self.expression(kind, 1)}"] if for_ else []
        inner = [filling[0], *leave, *filling[1:]]
        if rng.random() < 0.3:  # what the loop counts, or looks things up in
            i2, other, source = "q", self.fresh("int"), self.expression("ints", 1)
            inner = [f"{name} = 0", *leave, f"for {i2} in {source}:", f"    {other} = {i2} + {name}"]
            inner += [f"    {name} = {name} + 1"]
            kind = "int"
        self.scope = {**before, name: kind}
        loop = [f"for {i} in range(4):"] if for_ else [f"{i} = 0", "while True:"]
        inner = inner if for_ else [*inner, f"{i} = {i} + 1"]
        lines = [*started, *loop, *("    " + line for line in inner)]
        return [pad + line for line in lines]

    def search(self, indent: int) -> list[str]:
        """A loop that looks for something and says so, in one of the usual ways."""
        pad, rng = "    " * indent, self.rng
        target, source, bound = self.iteration()
        before = dict(self.scope)
        self.scope.update(bound)
        test, found = self.expression("test", 1), self.expression("int", 1)
        self.scope = before
        flag, loop = self.fresh("bool"), f"for {target} in {source}:"
        shapes = [
            [loop, f"    if {test}:", f"        return {found}"],
            [f"{flag} = False", loop, f"    if {test}:", f"        {flag} = True", "        break"],
            [f"{flag} = True", loop, f"    {flag} = {flag} and {test}"],
            [f"{flag} = any([{test} for {target} in {source}])"],
            [f"{flag} = all({test} for {target} in {source})"],
        ]
        at = rng.randrange(len(shapes))
        if at:
            self.scope[flag] = "bool"
        return [pad + line for line in shapes[at]]
