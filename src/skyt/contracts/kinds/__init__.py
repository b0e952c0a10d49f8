"""Kinds of values that a parameter takes: one class for each, which knows everything about its values.

A new kind is a class in a file here and its name in `Spec` (`skyt.contracts.specs`).
"""
