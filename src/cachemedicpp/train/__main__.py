"""`python -m cachemedicpp.train CONFIG --out RUN_DIR`: the same as `homeostat cache train`."""

from cachemedicpp.cli import run_module

run_module("train")
