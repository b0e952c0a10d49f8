"""Contracts from what people already have: task files of EvalPlus and HumanEval, pytest and Python files.

Hands out `read_tasks`, `read_tests`, `write_contract` and `as_yaml`. Nothing is run here: whether a reference
passes its own contract is found out where there is a sandbox. May use text and the rest of contracts.
"""

from skyt.contracts.importers.lines import Problem
from skyt.contracts.importers.tasks import Imported, read_tasks
from skyt.contracts.importers.tests import read_tests
from skyt.contracts.importers.writing import as_yaml, write_contract

__all__ = ["Imported", "Problem", "as_yaml", "read_tasks", "read_tests", "write_contract"]
