"""Normal forms: rules that keep behaviour by construction, from facts the contract gives."""

from skyt.rules import (
    alpha,
    arguments,
    arithmetic,
    assignments,
    binders,
    branches,
    building,
    cleanup,
    comparisons,
    conditional,
    connectives,
    containers,
    counters,
    counting,
    decided,
    defaults,
    definitions,
    filling,
    grouping,
    guards,
    helpers,
    inline,
    inverse,
    items,
    iteration,
    joining,
    literals,
    loops,
    merging,
    objects,
    ordering,
    orientation,
    quantifiers,
    regex,
    sequences,
    stacks,
    tables,
    totals,
    truth,
    webs,
)
from skyt.rules.engine import NormalForm, normal_form
from skyt.rules.facts import Facts, Parameter
from skyt.rules.registry import RULES, Applied, Rule

RULES_VERSION = "2"

# The order in which rules are tried. It decides the way and, as far as tested, not the end.
FAMILIES = (
    *(
        cleanup,
        binders,
        comparisons,
        truth,
        connectives,
        decided,
        tables,
        containers,
        defaults,
        counters,
        grouping,
        arithmetic,
        literals,
        regex,
        iteration,
        items,
        sequences,
        loops,
        joining,
        building,
        filling,
        quantifiers,
        totals,
    ),
    *(
        guards,
        branches,
        conditional,
        orientation,
        assignments,
        webs,
        inline,
        counting,
        stacks,
        inverse,
        merging,
        objects,
        ordering,
    ),
    *(arguments, helpers, definitions, alpha),
)
_ORDER = {family.__name__: i for i, family in enumerate(FAMILIES)}
RULES.sort(key=lambda rule: _ORDER[rule.apply.__module__])

__all__ = ["RULES", "RULES_VERSION", "Applied", "Facts", "NormalForm", "Parameter", "Rule", "normal_form"]
