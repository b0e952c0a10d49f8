"""`python -m cachemedicpp.plots RUN_DIR`: the same as `homeostat cache plots`."""

from cachemedicpp.cli import run_module

run_module("plots")
