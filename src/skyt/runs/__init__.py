"""What a command does around one sample's way: generate, assess, record, measure, draw.

Hands out the pipeline and the bodies of `run`, `suite`, `replay`, `diff` and `explain`. May use every room
before it; serve and middleware come after it.
"""
