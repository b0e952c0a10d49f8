"""What a command does around the stages: the whole configuration, the pipeline, workers, and command bodies.

Hands out `MedicConfig` and the pipeline. May use every room but sweep.
"""
