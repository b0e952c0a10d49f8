"""The judging of outputs: one function, the processes that run it, and the memory of its results.

`assess` judges and repairs one output against one canon under one contract; `pool` does it for many, once
each; `judges` and `process` are the processes that `run`, `replay`, `suite` and the service share.
"""
