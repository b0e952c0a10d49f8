"""The part of Python in which the rules are sound."""
