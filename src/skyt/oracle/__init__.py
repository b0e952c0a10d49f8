"""Whether an output complies with its contract: constraints read off the program, cases and properties run.

Hands out `Oracle` and its `Verdict`. May use text, contracts and sandbox.
"""
