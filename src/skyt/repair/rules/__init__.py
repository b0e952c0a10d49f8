"""Normal forms: rules that keep behaviour by construction, from facts the contract gives."""

from importlib import import_module

from skyt.repair.rules.engine import NormalForm, normal_form
from skyt.repair.rules.facts import Facts, Parameter
from skyt.repair.rules.registry import RULES, Applied, Rule

RULES_VERSION = "20"

# The modules with rules, in the order in which they are tried. As far as tested it does not decide the end.
FAMILIES = """
definitions names.renaming expressions containers.tables containers.plain
control containers.sequences names.assignments
"""
_ORDER = {import_module(f"{__name__}.{name}").__name__: i for i, name in enumerate(FAMILIES.split())}
RULES.sort(key=lambda rule: _ORDER[rule.home])

__all__ = ["RULES", "RULES_VERSION", "Applied", "Facts", "NormalForm", "Parameter", "Rule", "normal_form"]
