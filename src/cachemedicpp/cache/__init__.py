"""A KV cache as data: its layers as tensors, its positions, and how keys are turned by them.

Hands out `KVState`, `Geometry` and `Rotary`. Uses the core only.
"""
