"""Kinds of values that a parameter takes: one class for each, which knows everything about its values.

A new kind is a class in a new file here, and nothing else: contracts find it by its `type`, type hints by its
`hints`, and examples by the type of their values.
"""
