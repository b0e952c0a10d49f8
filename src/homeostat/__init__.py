"""homeostat: measure how far an LLM's inference drifts from its reference, and bring it back.

The core shared by `cachemedicpp` (state: the KV cache) and `skyt` (output: generated code). It knows nothing
of either: run directories, records, configuration, statistics, figures, engines and models live here.
"""

__version__ = "0.2.0"
