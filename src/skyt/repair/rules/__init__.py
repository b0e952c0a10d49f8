"""Normal forms: rules that keep behaviour by construction, from facts the contract gives."""

from skyt.repair.rules.containers import (
    building,
    consumers,
    deques,
    items,
    sequences,
    stacks,
    tables,
    totals,
)
from skyt.repair.rules.control import (
    branches,
    counting,
    guards,
    iteration,
    loops,
    ordering,
    quantifiers,
)
from skyt.repair.rules.definitions import cleanup, definitions, helpers
from skyt.repair.rules.dicts import counters, defaults, grouping
from skyt.repair.rules.engine.rounds import NormalForm, normal_form
from skyt.repair.rules.expressions import (
    arithmetic,
    closed,
    comparisons,
    conditional,
    connectives,
    decided,
    joining,
    literals,
    orientation,
    regex,
    truth,
)
from skyt.repair.rules.facts import Facts, Parameter
from skyt.repair.rules.names import alpha, assignments, binders, inline, webs
from skyt.repair.rules.registry import RULES, Applied, Rule

RULES_VERSION = "4"

# The order in which rules are tried. It decides the way and, as far as tested, not the end.
FAMILIES = (
    *(cleanup, binders, comparisons, truth, connectives, decided, tables, defaults, deques),
    *(
        counters,
        grouping,
        arithmetic,
        literals,
        regex,
        consumers,
        iteration,
        items,
        sequences,
        loops,
    ),
    *(joining, quantifiers, guards, building, totals, closed, branches, conditional),
    *(orientation, assignments, webs, inline, counting, stacks, ordering),
    *(helpers, definitions, alpha),
)
_ORDER = {family.__name__: i for i, family in enumerate(FAMILIES)}
RULES.sort(key=lambda rule: _ORDER[rule.home])

__all__ = ["RULES", "RULES_VERSION", "Applied", "Facts", "NormalForm", "Parameter", "Rule", "normal_form"]
