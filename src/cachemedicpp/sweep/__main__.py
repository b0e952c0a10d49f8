"""`python -m cachemedicpp.sweep CONFIG --out RUN_DIR`: the same as `homeostat cache sweep`."""

from cachemedicpp.cli import run_module

run_module("sweep")
