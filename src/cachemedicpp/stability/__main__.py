"""`python -m cachemedicpp.stability CONFIG --out RUN_DIR`: the same as `homeostat cache stability`."""

from cachemedicpp.cli import run_module

run_module("stability")
