"""Sweeps: many runs of one configuration, and the table that compares them.

Hands out `run_sweep`. May use every other room.
"""
