"""Bringing an output to its canon without changing what it does.

`repair` measures and decides, `rules` rewrite a program to its normal form, `equivalence` compares two
programs by running them. May use text, contracts, sandbox, oracle and canon.
"""
