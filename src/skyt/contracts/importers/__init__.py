"""Contracts from what people already have: EvalPlus and HumanEval task files, and pytest files.

Hands out `read_tasks`, `read_tests` and `write_contract`. Nothing is run here: whether a reference passes its
own contract is found out where there is a sandbox. May use text and the rest of contracts.
"""

from skyt.contracts.importers.lines import Problem
from skyt.contracts.importers.tasks import Imported, read_tasks
from skyt.contracts.importers.tests import read_tests
from skyt.contracts.importers.writing import write_contract

__all__ = ["Imported", "Problem", "read_tasks", "read_tests", "write_contract"]
