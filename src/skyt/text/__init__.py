"""One output as text: code extracted from it, parsed, normalised, signed, and its distance to another.

Hands out small functions on strings and syntax trees. Uses the core only.
"""
