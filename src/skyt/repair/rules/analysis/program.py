"""What is known of a program as a whole: types of its variables, which of its functions are pure, and which
containers a function made itself, so that nobody else can reach them while it runs.

Types are found by iterating to a fixed point. A variable has the join of everything ever assigned to it,
whatever the order. Which container a name means is not followed: what is put into one may be in every one of
its kind, unless all values of the name are new containers.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from functools import cached_property

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import Effects, mutates_receiver, pure_call, pure_callbacks
from skyt.repair.rules.analysis.trees import NESTED, children, in_order, own_nodes, walk, words
from skyt.repair.rules.analysis.types import ANY, Inference, Type, element, is_number, join, kind
from skyt.repair.rules.facts import Facts

MAX_ROUNDS = 8
GROWING = words("append add appendleft insert extend extendleft update setdefault")
Env = dict[str, Type]
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp)
PASSING = (ast.Return, ast.Compare, ast.UnaryOp, ast.BinOp, ast.FormattedValue)
READ = words("for in if len sorted list tuple set max min sum any all bool")  # uses that keep nothing of it
HARMLESS = READ | words("str dict print [] [:]")


class FunctionInfo:
    """One function of the program with the types of its variables."""

    def __init__(self, node: ast.FunctionDef, owner: ast.ClassDef | None, facts: Facts) -> None:
        self.node, self.owner, self.key = node, owner, "." * (owner is not None) + node.name
        entry = (owner or node).name == facts.name and (owner is not None) == (facts.kind == "class")
        parameters = facts.of(node.name) if entry else ()
        self.public = entry and (bool(parameters) or node.name in facts.public)
        self.arguments = [x.arg for x in node.args.args]
        self.value_arguments = self.arguments[1:] if owner is not None else self.arguments  # without `self`
        self.given = dict(zip(self.value_arguments, parameters, strict=False))
        self.nodes = in_order(node)
        nested = [n for n in self.nodes if n.__class__ in NESTED and n is not node]
        self.captured = frozenset(n.id for n in walk(nested) if isinstance(n, ast.Name))
        own = own_nodes(node) if nested else self.nodes[1:]
        self.binding = [n for n in own if n.__class__ in syntax.BINDING]  # what tells of types, in order
        self.assigned: dict[str, list[ast.expr | None]] = {}
        for name, value in syntax.assignments_of(node, self.nodes):
            self.assigned.setdefault(name, []).append(value)
        self.env: dict[str, Type] = {}
        self.made: frozenset[str] = frozenset()  # names of containers that are all made here
        self.owned: frozenset[str] = frozenset()  # of these, those that nobody else can reach
        self.nonnegative: set[str] | None = None  # found out when it is asked for


def made_names(info: FunctionInfo, own: Container[str]) -> frozenset[str]:
    """Local variables whose every value is a container made here. `own` are the program's `.methods`."""
    return frozenset(
        name
        for name, values in info.assigned.items()
        if name not in info.arguments and name not in info.captured
        if all(v is not None and makes_container(v, info.env.get(name), own) for v in values)
    )


def owned_names(info: FunctionInfo, own: Container[str]) -> frozenset[str]:
    """Of these, those that nobody else can reach while the function runs."""
    made = made_names(info, own)
    parents = {id(c): p for p in info.nodes if made for c in children(p)}
    uses = [n for n in info.nodes if isinstance(n, ast.Name) and n.ctx.__class__ is ast.Load and n.id in made]
    return made.difference(n.id for n in uses if not _harmless_use(n, parents))


def makes_container(value: ast.expr, t: Type, own: Container[str]) -> bool:
    """Whether evaluating this, of type `t`, makes a new container that nothing else names."""
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in {"list", "dict", "set", "sorted"}
        case ast.Call(func=ast.Attribute(value=ast.Name(id="collections"))):
            return True
        case ast.Call(func=ast.Attribute(attr="split" | "splitlines" | "copy" as name)):
            return kind(t) == "list" and "." + name not in own
        case ast.Subscript(slice=ast.Slice()):
            return kind(t) == "list"
        case ast.BinOp(left=left, op=op):
            plain = isinstance(op, ast.Add | ast.Mult) and kind(t) == "list"
            return plain or isinstance(left, ast.List | ast.ListComp)
    return isinstance(value, DISPLAYS)


def _harmless_use(node: ast.Name, parents: Mapping[int, ast.AST]) -> bool:
    use, parent = use_of(node, parents), parents.get(id(node))
    joined = isinstance(parent, ast.Call) and isinstance(getattr(parent.func, "value", None), ast.Constant)
    return joined or use in HARMLESS or use.startswith(".") or isinstance(parent, PASSING)


def use_of(node: ast.expr, parents: Mapping[int, ast.AST]) -> str:
    """What is done with a container: an entry or a slice is asked for (`[]`, `[:]`), a method is called
    (`.append`), a loop goes through it (`for`), it is searched (`in`), only its truth counts (`if`), or a
    function is given it alone (`len`). Empty for anything else."""
    match parent := parents.get(id(node)):
        case ast.Subscript(value=whole, slice=index) if whole is node:
            return "[:]" if isinstance(index, ast.Slice) else "[]"
        case ast.Attribute(attr=name):
            outer = parents.get(id(parent))
            return "." + name if isinstance(outer, ast.Call) and outer.func is parent else ""
        case ast.For(iter=whole) | ast.comprehension(iter=whole):
            return "for" if whole is node else ""
        case ast.Compare(left=left, ops=ops):
            return "in" if left is not node and all(isinstance(op, ast.In | ast.NotIn) for op in ops) else ""
        case ast.Call(func=ast.Name(id=name), args=[whole], keywords=[]) if whole is node:
            return name
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return "if" if test is node else ""
        case ast.BoolOp():
            return "if" if use_of(parent, parents) == "if" else ""
        case ast.UnaryOp(op=ast.Not()):
            return "if"
    return ""


def widened(t: Type, more: Type) -> Type:
    """The type, with every container in it of the kind of `more` able to hold what `more` holds."""
    if not isinstance(t, tuple):
        return t
    inner = tuple(widened(x, more) for x in t[1:])  # type: ignore[arg-type]
    if isinstance(more, tuple) and t[0] == more[0]:
        return join((t[0], *inner), more)
    return (t[0], *(ANY if more == ANY else x for x in inner))


class Program:
    """The analysis of one syntax tree. It is thrown away and made anew when the tree changes."""

    def __init__(self, tree: ast.Module, facts: Facts) -> None:
        self.tree = tree
        self.facts = facts
        self.pure: frozenset[str] = frozenset()
        self.seen: dict[tuple[int | None, ...], tuple[Effects, list[ast.AST]]] = {}  # see Scope.effects
        nodes = walk(tree)
        # Reading a `defaultdict` may change it.
        named = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        self.grows, self.groups = "defaultdict" in named, "groupby" in named
        self.functions: dict[int, FunctionInfo] = {}
        self.by_name: dict[str, FunctionInfo] = {}
        classes = [s for s in tree.body if isinstance(s, ast.ClassDef)]
        owners = {id(method): c for c in classes for method in c.body}
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                info = FunctionInfo(node, owners.get(id(node)), facts)
                self.functions[id(node)] = self.by_name[info.key] = info
        attributes = {n: ANY for c in classes for n in syntax.stored_names(c.body)}
        self.inference = Inference({c.name for c in classes}, attributes, dict.fromkeys(self.by_name))
        called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        Solver(self, {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}).solve()
        for info in self.functions.values():
            info.owned = owned_names(info, self.by_name)
        self.pure = self._purity()

    @cached_property
    def attribute_order(self) -> dict[str, str]:
        """For attributes that only the program names: a number in their order; for methods nothing."""
        nodes, public = in_order(self.tree) if self.inference.classes else [], self.facts.public
        stores = [n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)]
        order = {attr: f"{i:03d}" for i, attr in enumerate(dict.fromkeys(stores)) if attr not in public}
        methods = {name[1:] for name in self.by_name if name[0] == "."}
        return {**dict.fromkeys(methods - public, ""), **order}

    @cached_property
    def always_set(self) -> dict[str, frozenset[str]]:
        """By class, the attributes that every object has once it is made."""
        made = [i for i in self.functions.values() if i.node.name == "__init__"]
        return {i.owner.name: _set_at_once(i) for i in made if i.owner is not None}

    def _purity(self) -> frozenset[str]:
        """Functions without effects outside themselves, by the greatest fixed point (recursion allowed)."""
        candidates = {n for n, i in self.by_name.items() if i.owner is None}
        while impure := {n for n in candidates if not self._is_pure(self.by_name[n], candidates)}:
            candidates -= impure
        return frozenset(candidates)

    def uses_up(self, t: Type) -> bool:
        """Whether looking at something of this type may use it up: it may be a group of `groupby`."""
        return self.groups and not kind(t)

    def inserts(self, t: Type) -> bool:
        """Whether looking up an entry of something of this type may make one: it may be a `defaultdict`."""
        return self.grows and kind(t).partition(":")[0] in {"", "object"}

    def _is_pure(self, info: FunctionInfo, candidates: set[str]) -> bool:
        if any(self.uses_up(info.env.get(name, ANY)) for name in info.arguments):
            return False
        for node in info.nodes:
            changed: ast.expr | None = None
            if isinstance(node, ast.Attribute | ast.Subscript) and (
                not isinstance(node.ctx, ast.Load)
                or (isinstance(node, ast.Subscript) and self.inserts(self.inference.of(node.value, info.env)))
            ):
                changed = node.value
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                changed = node.right if self.inserts(self.inference.of(node.right, info.env)) else None
            elif isinstance(node, ast.Call):
                changed = mutates_receiver(node)
                judge = pure_call if changed is None else pure_callbacks
                if not judge(node, candidates, self.by_name):
                    return False
            elif isinstance(node, ast.AugAssign):  # of an entry: the entry, which others may hold
                whole = self.inference.of(syntax.loaded(node.target), info.env)
                changed = node.target if kind(whole) in {"", "list", "set", "dict", "deque"} else None
            if changed is not None and not (isinstance(changed, ast.Name) and changed.id in info.owned):
                return False
        return True


def _set_at_once(info: FunctionInfo) -> frozenset[str]:
    """Attributes that a constructor sets whatever happens, before anyone else can see the object."""
    own, nodes = info.arguments[:1], walk(info.node)
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id in own]
    accesses = [n for n in nodes if isinstance(n, ast.Attribute) and n.value in uses and id(n) not in called]
    if len(uses) != len(accesses) or any(isinstance(n, ast.Return) for n in nodes):
        return frozenset()
    targets = [t for s in info.node.body if isinstance(s, ast.Assign) for t in s.targets]
    return frozenset(t.attr for t in targets if isinstance(t, ast.Attribute) and t in accesses)


class Solver:
    """Fills in the types of variables, attributes and results. Functions whose names are `handed` on (to
    `map`, or as a key) are called with anything."""

    def __init__(self, program: Program, handed: set[str]) -> None:
        self.inference, self.by_name = program.inference, program.by_name
        self.functions = list(program.functions.values())
        self.all = [*(i.env for i in self.functions), self.inference.attributes, self.inference.results]
        for info in self.functions:
            info.made = made_names(info, self.by_name)
            self._start(info, info.owner is None and info.node.name in handed)

    def _start(self, info: FunctionInfo, exposed: bool) -> None:
        env, defaults = info.env, info.node.args.defaults
        env.update(dict.fromkeys(info.assigned))
        env.update(dict.fromkeys(info.arguments, ANY if info.public or exposed else None))
        if not exposed:
            env.update({name: parameter.type for name, parameter in info.given.items()})
        if info.owner is not None and info.arguments:
            env[info.arguments[0]] = "object:" + info.owner.name
        for name, default in zip(reversed(info.arguments), reversed(defaults), strict=False):
            env[name] = join(env.get(name), self.inference.of(default, {}))

    def solve(self) -> None:
        """Rounds until nothing changes; where that takes too many, nothing is known."""
        for _ in range(MAX_ROUNDS):
            before = [list(types.items()) for types in self.all]
            for info in self.functions:
                self._function(info)
            if [list(types.items()) for types in self.all] == before and not self._unseen():
                return
        for types in self.all:
            types.update(dict.fromkeys(types, ANY))

    def _unseen(self) -> bool:
        """Whether there are places where no value has been seen. One may come by a way not followed here."""
        unseen = [(types, name) for types in self.all for name, t in types.items() if t is None]
        for types, name in unseen:
            types[name] = ANY
        return bool(unseen)

    def _function(self, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        returned: Type = None
        for node in info.binding:
            match node:
                case ast.Return(value=value):
                    returned = join(returned, infer.of(value, env))
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target, infer.of(value, env), value, info)
                case ast.AugAssign(target=target, op=op, value=value):
                    old, more = syntax.loaded(target), infer.of(value, env)
                    self._bind(target, infer.of(ast.BinOp(old, op, value), env), None, info)
                    whole = infer.of(old, env)  # a container changes in place, under all of its names
                    if isinstance(whole, tuple) or (whole == ANY and more and not is_number(more)):
                        self._widen(whole, target, info)
                case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                    self._bind(target, element(infer.of(source, env)), None, info)
                case ast.Call(func=function, args=args):
                    self._arguments(node, env)
                    if isinstance(function, ast.Attribute) and function.attr in GROWING and args:
                        whole, types = infer.of(function.value, env), [infer.of(a, env) for a in args]
                        self._widen(_added(whole, function.attr, types), function.value, info)
                case ast.Lambda(args=args):
                    env.update({a.arg: ANY for a in args.args})
                case ast.FunctionDef(name=name):
                    env[name] = ANY
        falls = "none" if not syntax.returns(info.node.body) else None
        result = join(returned, falls) if self.by_name[info.key] is info else ANY
        infer.results[info.key] = join(infer.results[info.key], result)

    def _bind(self, target: ast.expr, value: Type, source: ast.expr | None, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        match target:
            case ast.Name(id=name):
                env[name] = join(env.get(name), value)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
                for i, item in enumerate(items):
                    if len(parts) == len(items):
                        self._bind(item, infer.of(parts[i], env), parts[i], info)
                    elif isinstance(value, tuple) and value[0] == "pair" and len(items) == 2:
                        self._bind(item, value[1 + i], None, info)  # type: ignore[arg-type]
                    else:
                        self._bind(item, ANY if value is not None else None, None, info)
            case ast.Attribute(attr=name):
                infer.attributes[name] = join(infer.attributes.get(name), value)
            case ast.Subscript(value=owner, slice=index):
                how, given = "[:]" if isinstance(index, ast.Slice) else "[]", [infer.of(index, env), value]
                self._widen(_added(infer.of(owner, env), how, given), owner, info)

    def _widen(self, more: Type, owner: ast.expr, info: FunctionInfo) -> None:
        """Something comes into a container."""
        if isinstance(owner, ast.Name) and owner.id in info.made:
            info.env[owner.id] = join(info.env[owner.id], more)
        elif more is not None:
            for types in self.all:
                types.update({name: widened(t, more) for name, t in types.items()})

    def _arguments(self, node: ast.Call, env: Env) -> None:
        """Arguments at a call site widen the parameters of the function called."""
        found: list[FunctionInfo] = []
        match node.func:
            case ast.Name(id=name) if name in self.inference.classes:
                found = [i for i in self._methods("__init__") if i.owner and i.owner.name == name]
            case ast.Name(id=name) if name in self.by_name and self.by_name[name].owner is None:
                found = [self.by_name[name]]
            case ast.Attribute(value=receiver, attr=name):
                k = kind(self.inference.of(receiver, env))
                found = self._methods(name) if not k or k.startswith("object:") else []
        for info in found:
            given = {k.arg: k.value for k in node.keywords if k.arg}
            given.update(zip(info.value_arguments, node.args, strict=False))
            for name in info.value_arguments:
                if name in given:
                    info.env[name] = join(info.env.get(name), self.inference.of(given[name], env))

    def _methods(self, name: str) -> list[FunctionInfo]:
        return [i for i in self.functions if i.owner is not None and i.node.name == name]


def _added(whole: Type, how: str, given: list[Type]) -> Type:
    """What a method of a container, or an assignment to an entry, puts into it: a container of its kind that
    holds the same, ANY where that is not known."""
    match kind(whole), how, given:
        case "list" | "deque" | "set" as k, "append" | "appendleft" | "add" | "insert" | "[]", [*_, new]:
            return (k, new)
        case "list" | "deque" | "set" as k, "extend" | "extendleft" | "update", [more]:
            return (k, element(more))
        case "dict", "setdefault" | "[]", [key, new]:
            return ("dict", key, new)
    return ANY if whole is not None and not kind(whole).startswith("object:") else None
