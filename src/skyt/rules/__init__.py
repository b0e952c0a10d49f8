"""Normal forms: rules that keep behaviour by construction, from facts the contract gives."""

from skyt.rules import (
    alpha,
    arithmetic,
    assignments,
    binders,
    branches,
    building,
    cleanup,
    conditions,
    containers,
    guards,
    helpers,
    inline,
    loops,
    merging,
    ordering,
    regex,
    stacks,
)
from skyt.rules.engine import NormalForm, normal_form
from skyt.rules.facts import Facts, Parameter
from skyt.rules.registry import RULES, Applied, Rule

RULES_VERSION = "1"

# The order in which rules are tried. It decides the way, and as far as tested not the end.
FAMILIES = (
    cleanup,
    binders,
    conditions,
    containers,
    arithmetic,
    regex,
    building,
    guards,
    branches,
    assignments,
    inline,
    loops,
    stacks,
    merging,
    ordering,
    helpers,
    alpha,
)
RULES.sort(key=lambda rule: [f.__name__ for f in FAMILIES].index(rule.apply.__module__))

__all__ = ["RULES", "RULES_VERSION", "Applied", "Facts", "NormalForm", "Parameter", "Rule", "normal_form"]
