"""What the rest of the house asks of effects."""

from skyt.repair.rules.analysis.effects import nodes as nodes
from skyt.repair.rules.analysis.effects.calls import mutates_receiver as mutates_receiver
from skyt.repair.rules.analysis.effects.calls import pure_call as pure_call
from skyt.repair.rules.analysis.effects.table import Effects as Effects
from skyt.repair.rules.analysis.effects.table import conflict as conflict
from skyt.repair.rules.analysis.effects.table import disturbs as disturbs
from skyt.repair.rules.analysis.effects.table import effects as effects
from skyt.repair.rules.analysis.effects.table import root as root
from skyt.repair.rules.analysis.effects.table import test_effects as test_effects
