"""`python -m cachemedicpp.eval CONFIG --out RUN_DIR`: the same as `homeostat cache eval`."""

from cachemedicpp.cli import run_module

run_module("eval")
